package render

import (
	"io"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// jsonRenderer writes one array of objects, one object per line. End closes the
// array, so that the output of a failed query is recognisably incomplete.
type jsonRenderer struct {
	jsonlRenderer
	some bool // a row has been written
}

func init() {
	define(JSON, implementation{endings: []string{".json"}, new: func(w io.Writer, cols []wire.Column, _ Options) (Renderer, error) { return newJSON(w, cols), nil }})
}

func newJSON(w io.Writer, cols []wire.Column) *jsonRenderer {
	return &jsonRenderer{jsonlRenderer: *newJSONL(w, cols)}
}

func (r *jsonRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i, n := 0, b.Len(); i < n; i++ {
		if r.some {
			r.buf = append(r.buf, ",\n"...)
		} else {
			r.buf = append(r.buf, "[\n"...)
			r.some = true
		}
		r.object(b, b.Row(i))
	}
	return r.flush()
}

func (r *jsonRenderer) End() error {
	if r.some {
		r.buf = append(r.buf, "\n]\n"...)
	} else {
		r.buf = append(r.buf, "[]\n"...)
	}
	return r.flush()
}
