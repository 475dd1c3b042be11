package render

import (
	"io"

	"endoscope/operators/batch"
	"endoscope/server/wire"
)

// markdownRenderer writes a GitHub-flavoured table for each emitted result. Columns
// are not padded, since the table is read typeset.
type markdownRenderer struct {
	machine
	clock  clock
	header []byte
	cell   []byte
	open   bool // a table has been started
	some   bool // a table has been written
}

func init() {
	define(Markdown, implementation{endings: []string{".md"}, new: func(w io.Writer, cols []wire.Column, _ Options) (Renderer, error) { return newMarkdown(w, cols), nil }})
}

func newMarkdown(w io.Writer, cols []wire.Column) *markdownRenderer {
	r := &markdownRenderer{machine: machine{w: w}}
	for _, c := range cols {
		r.header = append(r.header, "| "...)
		r.header = appendMarkdown(r.header, appendEscaped(nil, c.Name))
		r.header = append(r.header, ' ')
	}
	r.header = append(r.header, "|\n"...)
	for _, c := range cols {
		if c.Type.Numeric() {
			r.header = append(r.header, "| ---: "...)
		} else {
			r.header = append(r.header, "| --- "...)
		}
	}
	r.header = append(r.header, "|\n"...)
	return r
}

func (r *markdownRenderer) begin() {
	if r.open {
		return
	}
	if r.some {
		r.buf = append(r.buf, '\n')
	}
	r.buf = append(r.buf, r.header...)
	r.open, r.some = true, true
}

func (r *markdownRenderer) Rows(b *batch.Batch, preview bool) error {
	if preview {
		return nil
	}
	for i, n := 0, b.Len(); i < n; i++ {
		r.begin()
		row := b.Row(i)
		for c := range b.Cols {
			r.buf = append(r.buf, "| "...)
			r.cell = r.clock.appendHuman(r.cell[:0], b.Cols[c].Value(row))
			r.buf = appendMarkdown(r.buf, r.cell)
			r.buf = append(r.buf, ' ')
		}
		r.buf = append(r.buf, "|\n"...)
	}
	return r.flush()
}

// Flush ends the table; the next row begins another.
func (r *markdownRenderer) Flush(preview bool) error {
	if !preview {
		r.open = false
	}
	return nil
}

func (r *markdownRenderer) End() error {
	if !r.some {
		r.begin()
	}
	return r.flush()
}

// appendMarkdown writes escaped text so that Markdown does not interpret it:
// vector<int> is not an HTML tag and *p is not emphasis. An underscore within a word
// (function_name) has no meaning in GitHub's Markdown and stays.
func appendMarkdown(dst, s []byte) []byte {
	for i, c := range s {
		switch c {
		case '\n':
			dst = append(dst, "<br>"...)
			continue
		case '<':
			dst = append(dst, "&lt;"...)
			continue
		case '&':
			dst = append(dst, "&amp;"...)
			continue
		case '\\', '`', '*', '|', '~', '[':
			dst = append(dst, '\\')
		case '_':
			if i == 0 || i == len(s)-1 || !wordByte(s[i-1]) || !wordByte(s[i+1]) {
				dst = append(dst, '\\')
			}
		}
		dst = append(dst, c)
	}
	return dst
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c >= 0x80
}
