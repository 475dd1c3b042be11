package render

import (
	"io"
	"strings"
	"time"

	gpprof "github.com/google/pprof/profile"

	"endoscope/server/wire"
)

// pprofRenderer writes a profile for `go tool pprof` and what else reads that format
// (profile.proto, compressed by gzip). Each number of the result is a type of sample; other
// columns are labels. It is written at the end.
type pprofRenderer struct {
	*profile
	w io.Writer
}

func init() {
	define(Pprof, implementation{endings: []string{".pb.gz", ".pprof"}, binary: true, single: true,
		new: func(w io.Writer, cols []wire.Column, o Options) (Renderer, error) {
			p, err := newProfile(Pprof, cols, o.About)
			if err != nil {
				return nil, err
			}
			return &pprofRenderer{p, w}, nil
		}})
}

func (r *pprofRenderer) End() error {
	out := &gpprof.Profile{Comments: r.about.heading()}
	if !r.about.Start.IsZero() {
		out.TimeNanos, out.DurationNanos = r.about.Start.UnixNano(), time.Since(r.about.Start).Nanoseconds()
	}
	names, units := r.valueNames()
	for i := range names {
		out.SampleType = append(out.SampleType, &gpprof.ValueType{Type: names[i], Unit: units[i]})
	}
	out.DefaultSampleType = names[0]
	locations := r.locations(out)
	var path []int32
	for _, s := range r.samples {
		sample := &gpprof.Sample{Value: s.values}
		path = r.path(path[:0], s.node)
		for _, f := range path {
			sample.Location = append(sample.Location, locations[f])
		}
		for _, l := range s.labels {
			name := r.cols[l.col].Name
			if l.number {
				if sample.NumLabel == nil {
					sample.NumLabel = map[string][]int64{}
				}
				sample.NumLabel[name] = append(sample.NumLabel[name], l.n)
				continue
			}
			if sample.Label == nil {
				sample.Label = map[string][]string{}
			}
			sample.Label[name] = append(sample.Label[name], validText(l.text))
		}
		out.Sample = append(out.Sample, sample)
	}
	return out.Write(r.w)
}

// locations adds a location for each frame, with its function and module.
func (r *pprofRenderer) locations(out *gpprof.Profile) []*gpprof.Location {
	modules := map[string]*gpprof.Mapping{}
	type key struct{ function, file string }
	functions := map[key]*gpprof.Function{}
	var locations []*gpprof.Location
	for i, f := range r.frames {
		m := modules[f.module]
		if m == nil && f.module != "" {
			m = &gpprof.Mapping{ID: uint64(len(out.Mapping) + 1), File: validText(f.module), HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true}
			modules[f.module] = m
			out.Mapping = append(out.Mapping, m)
		}
		k := key{f.function, f.file}
		fn := functions[k]
		if fn == nil {
			name := validText(f.function)
			fn = &gpprof.Function{ID: uint64(len(out.Function) + 1), Name: name, SystemName: name, Filename: validText(f.file)}
			functions[k] = fn
			out.Function = append(out.Function, fn)
		}
		l := &gpprof.Location{ID: uint64(i + 1), Mapping: m, Line: []gpprof.Line{{Function: fn, Line: f.line}}}
		locations = append(locations, l)
	}
	out.Location = locations
	return locations
}

// validText replaces what is not UTF-8 by U+FFFD: strings of protocol buffers are UTF-8.
func validText(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
