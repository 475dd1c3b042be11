package render

import (
	"io"
	"time"

	gpprof "github.com/google/pprof/profile"

	"endoscope/operators/encoders/pprof"
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
	b := pprof.NewBuilder(out)
	var path []int32
	for _, s := range r.samples {
		sample := &gpprof.Sample{Value: s.values}
		path = r.path(path[:0], s.node)
		for _, f := range path {
			sample.Location = append(sample.Location, b.Location(r.frames[f]))
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
			sample.Label[name] = append(sample.Label[name], pprof.Text(l.text))
		}
		out.Sample = append(out.Sample, sample)
	}
	return out.Write(r.w)
}
