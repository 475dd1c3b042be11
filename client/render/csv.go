package render

import (
	"io"
	"strconv"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// csvRenderer writes RFC 4180 with "\n" line ends and a header line. NULL is
// empty and the empty string is "" (quoted), as PostgreSQL writes them. Lists
// are JSON text.
type csvRenderer struct {
	machine
	clock   clock
	scratch []byte // a cell that may need quotes
}

func init() {
	define(CSV, implementation{endings: []string{".csv"}, new: func(w io.Writer, cols []wire.Column, _ Options) (Renderer, error) { return newCSV(w, cols), nil }})
}

func newCSV(w io.Writer, cols []wire.Column) *csvRenderer {
	r := &csvRenderer{machine: machine{w: w}}
	for i, c := range cols {
		if i > 0 {
			r.buf = append(r.buf, ',')
		}
		r.buf = appendCSVString(r.buf, c.Name)
	}
	r.buf = append(r.buf, '\n')
	return r
}

func (r *csvRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i, n := 0, b.Len(); i < n; i++ {
		row := b.Row(i)
		for c := range b.Cols {
			if c > 0 {
				r.buf = append(r.buf, ',')
			}
			r.cell(&b.Cols[c], row)
		}
		r.buf = append(r.buf, '\n')
	}
	return r.flush()
}

// Tick writes the header if there are no rows yet, so that the reader of a pipe sees
// that the query runs.
func (r *csvRenderer) Tick() error { return r.flush() }

func (r *csvRenderer) End() error { return r.flush() }

func (r *csvRenderer) cell(col *batch.Column, i int) {
	if col.Nulls.Get(i) {
		return
	}
	switch col.Type.Physical() {
	case types.PhysBool:
		r.buf = strconv.AppendBool(r.buf, col.Bool[i])
	case types.PhysInt:
		if col.Type == types.Timestamp {
			r.buf = r.clock.append(r.buf, col.Int[i], 9)
		} else {
			r.buf = col.Type.AppendInt(r.buf, col.Int[i])
		}
	case types.PhysFloat:
		r.buf = appendFloat(r.buf, col.Float[i])
	case types.PhysCode:
		s := col.Values[col.Code[i]]
		if col.Type == types.Bytes {
			r.buf = appendHex(r.buf, s)
		} else {
			r.buf = appendCSVString(r.buf, s)
		}
	case types.PhysAny:
		if col.Type == types.Encoding {
			r.buf = appendCSVString(r.buf, encodingText(col.Value(i)))
			return
		}
		r.scratch = r.clock.appendJSON(r.scratch[:0], col, i)
		r.buf = appendCSVString(r.buf, r.scratch)
	}
}

// appendCSVString writes a string, quoted if it contains a separator, quote or line
// end, or is empty and would read as NULL.
func appendCSVString[S string | []byte](dst []byte, s S) []byte {
	plain := len(s) > 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == ',' || c == '"' || c == '\n' || c == '\r' {
			plain = false
			break
		}
	}
	if plain {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}
