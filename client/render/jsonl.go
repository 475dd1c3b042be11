package render

import (
	"io"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// jsonlRenderer writes an object a line.
type jsonlRenderer struct {
	machine
	clock clock
	keys  [][]byte // `{"first":`, `,"second":`, ...
}

func newJSONL(w io.Writer, cols []wire.Column) *jsonlRenderer {
	r := &jsonlRenderer{machine: machine{w: w}}
	for i, name := range uniqueNames(cols) {
		start := byte(',')
		if i == 0 {
			start = '{'
		}
		r.keys = append(r.keys, append(appendJSONString([]byte{start}, name), ':'))
	}
	return r
}

func (r *jsonlRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i, n := 0, b.Len(); i < n; i++ {
		r.object(b, b.Row(i))
		r.buf = append(r.buf, '\n')
	}
	return r.flush()
}

func (r *jsonlRenderer) End() error { return nil }

func (r *jsonlRenderer) object(b *batch.Batch, row int) {
	for c := range b.Cols {
		r.buf = append(r.buf, r.keys[c]...)
		r.buf = r.clock.appendJSON(r.buf, &b.Cols[c], row)
	}
	r.buf = append(r.buf, '}')
}
