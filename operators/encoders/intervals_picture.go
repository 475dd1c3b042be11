package encoders

import (
	"cmp"
	"endoscope/operators/encoders/render"
	"slices"
)

// SVG implements [Drawing]: for each class, and each thread if there are several, its share
// of each part of the run (Reiss and Renieris, figure 1), with waiting drawn separately;
// below it, the bytes it allocated, if known.
func (x *Intervals) SVG() string { return x.heatmap().Svg() }

// Picture returns the same picture as text.
func (x *Intervals) Picture() string { return x.heatmap().Text() + x.Remark() }

func (x *Intervals) heatmap() *render.Heatmap {
	_, cells := x.Cells()
	parts := 0
	for _, c := range cells {
		parts = max(parts, c.Part+1)
	}
	h := &render.Heatmap{Title: "intervals", About: x.About(), Legend: []string{"blue: time in the class, stronger is more; orange: of it, waiting; on the right: the sum"}, Cells: parts, From: shortTime(0), To: shortTime(float64(int64(parts) << x.shift))}
	type key struct {
		thread int
		class  Symbol
	}
	type rows struct {
		key
		took, waited, bytes []float64
		total               Activity
	}
	at := map[key]*rows{}
	var all []*rows
	for _, c := range cells {
		k := key{c.Thread, c.Class}
		r := at[k]
		if r == nil {
			r = &rows{key: k, took: make([]float64, parts), waited: make([]float64, parts), bytes: make([]float64, parts)}
			at[k] = r
			all = append(all, r)
		}
		r.took[c.Part] += float64(c.Time)
		r.waited[c.Part] += float64(c.Waiting)
		r.bytes[c.Part] += float64(c.Bytes)
		r.total.add(&c.Activity)
	}
	slices.SortFunc(all, func(a, b *rows) int {
		return cmp.Or(cmp.Compare(a.thread, b.thread), cmp.Compare(b.total.Time, a.total.Time), cmp.Compare(x.names[a.class], x.names[b.class]))
	})
	for _, r := range all {
		name := string(AppendName(nil, x.names, r.class))
		if x.Sequences > 1 {
			name = x.thread(r.thread) + " " + name
		}
		h.Rows = append(h.Rows, render.HeatRow{Name: name, At: r.took, Part: r.waited, Total: shortTime(float64(r.total.Time)), Full: float64(x.Length()), Shown: shortTime})
		if r.total.Bytes > 0 {
			h.Rows = append(h.Rows, render.HeatRow{Name: name + " allocates", At: r.bytes, Total: shortBytes(float64(r.total.Bytes)), Shown: shortBytes})
		}
	}
	return h
}
