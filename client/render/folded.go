package render

import (
	"io"
	"strconv"
	"strings"

	"endoscope/server/wire"
)

// foldedRenderer writes a line for each stack, root first, and its first number:
//
//	main;serve;parse 12
//
// It is the input of flamegraph.pl, inferno and speedscope. A semicolon in a name becomes a
// colon, and characters that would end the line are escaped.
type foldedRenderer struct {
	*profile
	machine
}

func init() {
	define(Folded, implementation{endings: []string{".folded"}, new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) {
		p, err := newProfile(Folded, cols, o.About)
		if err != nil {
			return nil, err
		}
		return &foldedRenderer{profile: p, machine: machine{w: w}}, nil
	}})
}

// Flush, Tick and Clear are those of the profile: the stacks are written at the end.
func (r *foldedRenderer) Flush(preview bool) error { return r.profile.Flush(preview) }
func (r *foldedRenderer) Tick() error              { return nil }
func (r *foldedRenderer) Clear() error             { return nil }

func (r *foldedRenderer) End() error {
	var path []int32
	for _, s := range r.totals() {
		path = r.path(path[:0], s.node)
		for i := len(path) - 1; i >= 0; i-- {
			r.buf = appendEscaped(r.buf, strings.ReplaceAll(r.frames[path[i]].Function, ";", ":"))
			if i > 0 {
				r.buf = append(r.buf, ';')
			}
		}
		r.buf = strconv.AppendInt(append(r.buf, ' '), s.values[0], 10)
		r.buf = append(r.buf, '\n')
	}
	return r.flush()
}
