package render

import (
	"io"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// rawRenderer writes values as they are: no header and no quotes, a tab between the
// columns and a line end after each row. A text that is a file of another format (an
// SVG, folded stacks) comes out as that file. On a terminal it is escaped, except for
// line ends and tabs.
type rawRenderer struct {
	machine
	exact  csvRenderer // formats numbers, times and bytes; its buffer is scratch space
	escape bool
}

func init() {
	define(Raw, implementation{endings: []string{".dot", ".mmd", ".xml"}, new: func(w io.Writer, _ []wire.Column, o Options) (Renderer, error) {
		return &rawRenderer{machine: machine{w: w}, escape: o.Size != nil}, nil
	}})
}

func (r *rawRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i, n := 0, b.Len(); i < n; i++ {
		row := b.Row(i)
		for c := range b.Cols {
			if c > 0 {
				r.buf = append(r.buf, '\t')
			}
			r.value(&b.Cols[c], row)
		}
		r.buf = append(r.buf, '\n')
	}
	return r.flush()
}

func (r *rawRenderer) End() error { return r.flush() }

func (r *rawRenderer) value(col *batch.Column, i int) {
	switch {
	case col.Nulls.Get(i):
	case col.Type.Physical() == types.PhysCode && col.Type != types.Bytes:
		r.text(col.Values[col.Code[i]])
	case col.Type == types.Encoding:
		r.text(encodingText(col.Value(i)))
	case col.Type.Physical() == types.PhysAny:
		r.buf = r.exact.clock.appendJSON(r.buf, col, i)
	default:
		r.exact.buf = r.exact.buf[:0]
		r.exact.cell(col, i)
		r.buf = append(r.buf, r.exact.buf...)
	}
}

func (r *rawRenderer) text(s string) {
	if !r.escape {
		r.buf = append(r.buf, s...)
		return
	}
	r.buf = appendEscapedBut(r.buf, s, "\n\t")
}
