package render

import (
	"io"
	"strconv"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// jsonlRenderer writes one object per line.
type jsonlRenderer struct {
	machine
	clock clock
	keys  [][]byte // `{"first":`, `,"second":`, ...
}

func init() {
	define(JSONL, implementation{endings: []string{".jsonl", ".ndjson"}, new: func(w io.Writer, cols []wire.Column, _ Options) (Renderer, error) { return newJSONL(w, cols), nil }})
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

// uniqueNames numbers the second and later columns of the same name (count, count_2),
// since the keys of an object are unique. A numbered name never equals another
// column's name.
func uniqueNames(cols []wire.Column) []string {
	names, taken := make([]string, len(cols)), map[string]bool{}
	for _, c := range cols {
		taken[c.Name] = true
	}
	used := map[string]bool{}
	for i, c := range cols {
		name := c.Name
		for n := 2; used[c.Name] && taken[name]; n++ {
			name = c.Name + "_" + strconv.Itoa(n)
		}
		used[c.Name], taken[name] = true, true
		names[i] = name
	}
	return names
}
