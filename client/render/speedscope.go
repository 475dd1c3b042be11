package render

import (
	"io"
	"strconv"

	"endoscope/server/wire"
)

// speedscopeRenderer writes the JSON of speedscope (https://www.speedscope.app): a sampled
// profile for each number of the result, over the same stacks.
type speedscopeRenderer struct {
	*profile
	machine
}

func init() {
	define(Speedscope, implementation{endings: []string{".speedscope.json"}, single: true, new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) {
		p, err := newProfile(Speedscope, cols, o.About)
		if err != nil {
			return nil, err
		}
		return &speedscopeRenderer{profile: p, machine: machine{w: w}}, nil
	}})
}

// Flush, Tick and Clear are those of the profile: the file is written at the end.
func (r *speedscopeRenderer) Flush(preview bool) error { return r.profile.Flush(preview) }
func (r *speedscopeRenderer) Tick() error              { return nil }
func (r *speedscopeRenderer) Clear() error             { return nil }

func (r *speedscopeRenderer) End() error {
	text := func(s string) { r.buf = append(r.buf, s...) }
	text(`{"$schema":"https://www.speedscope.app/file-format-schema.json","exporter":"endoscope","name":`)
	name := r.about.Query
	if name == "" {
		name = "profile"
	}
	r.buf = appendJSONString(r.buf, name)
	text(`,"shared":{"frames":[`)
	for i, f := range r.frames {
		if i > 0 {
			text(",")
		}
		text("\n" + `{"name":`)
		r.buf = appendJSONString(r.buf, f.Function)
		if file := f.File; file != "" || f.Module != "" {
			if file == "" {
				file = f.Module
			}
			text(`,"file":`)
			r.buf = appendJSONString(r.buf, file)
		}
		if f.Line > 0 {
			text(`,"line":`)
			r.buf = strconv.AppendInt(r.buf, f.Line, 10)
		}
		text("}")
	}
	text("]},\n" + `"profiles":[`)
	samples := r.totals()
	names, units := r.valueNames()
	for k := range names {
		if k > 0 {
			text(",")
		}
		r.one(k, names[k], units[k], samples)
	}
	text("]}\n")
	return r.flush()
}

// one writes the profile of one number. Speedscope has no negative weights: they are 0.
func (r *speedscopeRenderer) one(k int, name, unit string, samples []stackSample) {
	if unit == "count" {
		unit = "none"
	}
	r.buf = append(r.buf, "\n"+`{"type":"sampled","name":`...)
	r.buf = appendJSONString(r.buf, name)
	r.buf = append(r.buf, `,"unit":"`+unit+`","startValue":0,"samples":[`...)
	var path []int32
	for i, s := range samples {
		if i > 0 {
			r.buf = append(r.buf, ',')
		}
		r.buf = append(r.buf, '[')
		path = r.path(path[:0], s.node)
		for j := len(path) - 1; j >= 0; j-- {
			r.buf = strconv.AppendInt(r.buf, int64(path[j]), 10)
			if j > 0 {
				r.buf = append(r.buf, ',')
			}
		}
		r.buf = append(r.buf, ']')
	}
	r.buf = append(r.buf, `],"weights":[`...)
	total := int64(0)
	for i, s := range samples {
		if i > 0 {
			r.buf = append(r.buf, ',')
		}
		v := max(0, s.values[k])
		total = addClamped(total, v)
		r.buf = strconv.AppendInt(r.buf, v, 10)
	}
	r.buf = append(r.buf, `],"endValue":`...)
	r.buf = append(strconv.AppendInt(r.buf, total, 10), '}')
}
