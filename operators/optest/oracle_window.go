package optest

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// border is a window [start, end).
type border struct{ start, end int64 }

func (r *run) window(n *plan.Window, in *stream) *stream {
	switch {
	case n.Spec.Kind == plan.Session:
		return r.sessions(n, in)
	case n.Hold:
		return r.heldWindows(n, in)
	}
	out := &stream{err: in.err}
	for _, e := range in.events {
		if e.kind != row {
			out.add(e)
			continue
		}
		for _, w := range windowsOf(n.Spec, e, out) {
			out.add(e.with(bordered(n, e.row, w)))
		}
	}
	return out
}

// bordered returns a row with the two columns that a Window adds.
func bordered(n *plan.Window, vs []types.Value, w border) []types.Value {
	t := n.Out.Fields[len(vs)].Type
	return append(slices.Clone(vs), types.Value{Type: t, I: w.start}, types.Value{Type: t, I: w.end})
}

// windowsOf lists the TUMBLE or HOP windows of a row, in order. A row without time has
// none, and is lost.
func windowsOf(spec plan.WindowSpec, e event, out *stream) []border {
	t := e.row[spec.Time]
	if t.IsNull {
		out.add(event{kind: lost, step: e.step, cause: "no timestamp", n: 1})
		return nil
	}
	size, slide := int64(spec.Size), int64(spec.Slide)
	if spec.Kind == plan.Tumble {
		slide = size
	}
	var ws []border
	start := floorTo(t.I, slide)
	for ; start > t.I-size; start -= slide {
		ws = append(ws, border{start, start + size})
	}
	slices.Reverse(ws)
	return ws
}

// floorTo returns the greatest multiple of step that is not above t.
func floorTo(t, step int64) int64 {
	q := new(big.Int).Div(big.NewInt(t), big.NewInt(step))
	return q.Mul(q, big.NewInt(step)).Int64()
}

// heldWindows emits each window's rows, in order of arrival, once the watermark passes its
// end.
func (r *run) heldWindows(n *plan.Window, in *stream) *stream {
	out := &stream{err: in.err}
	open := map[border][]event{}
	closed := int64(math.MinInt64)
	closeTo := func(t int64, step int) {
		var ws []border
		for w := range open {
			if w.end <= t {
				ws = append(ws, w)
			}
		}
		slices.SortFunc(ws, func(a, b border) int { return cmp.Compare(a.end, b.end) })
		for _, w := range ws {
			for _, e := range open[w] {
				out.add(event{kind: row, step: step, row: bordered(n, e.row, w)})
			}
			out.add(event{kind: flush, step: step})
			delete(open, w)
		}
	}
	for _, e := range in.events {
		switch e.kind {
		case row:
			ws := windowsOf(n.Spec, e, out)
			alive := slices.DeleteFunc(slices.Clone(ws), func(w border) bool { return w.end <= closed })
			for _, w := range alive {
				open[w] = append(open[w], e)
			}
			if len(alive) < len(ws) {
				out.add(event{kind: lost, step: e.step, cause: "late", n: uint64(len(ws) - len(alive))})
			}
			continue
		case watermark:
			closed = max(closed, e.time)
			closeTo(closed, e.step)
		}
		out.add(e)
	}
	if in.err == nil {
		closeTo(math.MaxInt64, r.lastStep())
	}
	return out
}

// session is a set of rows of one partition with gaps below the session gap.
type session struct {
	part string
	rows []event
	seq  int // sessions of equal borders close in the order in which they opened
}

// sessions emits the rows of a session when it closes: when the watermark has passed the
// time of its last row by the gap. At each row, the open rows of its partition are divided
// into sessions again. A row is late if it joins no open session and would by itself be
// closed already.
func (r *run) sessions(n *plan.Window, in *stream) *stream {
	out := &stream{err: in.err}
	gap, timeOf := int64(n.Spec.Gap), func(e event) int64 { return e.row[n.Spec.Time].I }
	var open []*session
	opened := 0
	closed := int64(math.MinInt64)
	extent := func(s *session) border {
		return border{timeOf(s.rows[0]), timeOf(s.rows[len(s.rows)-1]) + gap}
	}
	closeTo := func(t int64, step int) {
		slices.SortStableFunc(open, func(a, b *session) int {
			v, w := extent(a), extent(b)
			return cmp.Or(cmp.Compare(v.end, w.end), cmp.Compare(v.start, w.start), cmp.Compare(a.seq, b.seq))
		})
		for len(open) > 0 && extent(open[0]).end <= t {
			w := extent(open[0])
			for _, e := range open[0].rows {
				out.add(event{kind: row, step: step, row: bordered(n, e.row, w)})
			}
			if n.Hold {
				out.add(event{kind: flush, step: step})
			}
			open = open[1:]
		}
	}
	for _, e := range in.events {
		switch e.kind {
		case row:
			if e.row[n.Spec.Time].IsNull {
				out.add(event{kind: lost, step: e.step, cause: "no timestamp", n: 1})
				continue
			}
			parts, err := r.all(n.Spec.PartitionBy, e.row)
			if err != nil {
				return out.fail(err)
			}
			part := key(parts)
			joined := &session{part, []event{e}, opened}
			var others, merged []*session
			for _, s := range open {
				w := extent(s)
				if s.part == part && timeOf(e) < w.end && timeOf(e) > w.start-gap {
					joined.rows, merged = append(joined.rows, s.rows...), append(merged, s)
				} else {
					others = append(others, s)
				}
			}
			if len(joined.rows) == 1 && timeOf(e)+gap <= closed {
				out.add(event{kind: lost, step: e.step, cause: "late", n: 1})
				continue
			}
			opened++
			if len(merged) > 0 { // e arrived last
				first := func(a, b *session) int { return cmp.Compare(extent(a).start, extent(b).start) }
				joined.seq = slices.MinFunc(merged, first).seq
				joined.rows = append(joined.rows[1:], e)
			}
			slices.SortStableFunc(joined.rows, func(a, b event) int { return cmp.Compare(timeOf(a), timeOf(b)) })
			open = append(others, joined)
			continue
		case watermark:
			closed = max(closed, e.time)
			closeTo(closed, e.step)
		}
		out.add(e)
	}
	if in.err == nil {
		closeTo(math.MaxInt64, r.lastStep())
	}
	return out
}
