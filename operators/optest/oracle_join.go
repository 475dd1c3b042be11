package optest

import (
	"cmp"
	"math"
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// join compares every row with every other. A row earlier than its own stream's watermark
// is late and not joined; neither is a row without a time.
func (r *run) join(n *plan.Join, l, rt *stream) *stream {
	out := &stream{}
	type arrival struct {
		event
		port int
	}
	var all []arrival
	ins := []*stream{l, rt}
	for port, in := range ins {
		for _, e := range in.events {
			all = append(all, arrival{event: e, port: port})
		}
		out.err = cmp.Or(out.err, in.err)
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return cmp.Compare(a.step, b.step) })
	marks := [2]int64{math.MinInt64, math.MinInt64}
	var ticks [2]int
	var kept [2][]arrival
	times := [2]int{n.Left.Schema().Time, n.Right.Schema().Time}
	at := func(a arrival) int64 { return a.row[times[a.port]].I }
	for _, a := range all {
		switch a.kind {
		case row:
			switch v := a.row[times[a.port]]; {
			case v.IsNull:
				out.add(event{kind: lost, step: a.step, cause: "no timestamp", n: 1})
			case v.I < marks[a.port]:
				out.add(event{kind: lost, step: a.step, cause: "late", n: 1})
			default:
				kept[a.port] = append(kept[a.port], a)
			}
		case watermark:
			marks[a.port] = max(marks[a.port], a.time)
		case lost:
			out.add(a.event)
		case ended:
			ticks[a.port] = math.MaxInt
		case tick:
			if ticks[a.port]++; min(ticks[0], ticks[1]) == ticks[a.port] {
				out.add(a.event)
			}
		}
	}
	if out.err != nil {
		return out
	}
	slices.SortStableFunc(kept[1], func(a, b arrival) int { return cmp.Compare(at(a), at(b)) })
	lo, hi := n.Band()
	nulls := make([]types.Value, len(n.Right.Schema().Fields))
	for i, f := range n.Right.Schema().Fields {
		nulls[i] = types.NullOf(f.Type)
	}
	for _, a := range kept[0] {
		var found []types.Value
		for _, b := range kept[1] {
			d := at(b) - at(a)
			if n.Kind == plan.AsOfJoin && d > 0 || n.Kind != plan.AsOfJoin && (d < lo || d > hi) {
				continue
			}
			pair := slices.Concat(a.row, b.row)
			if n.On != nil {
				ok, err := r.holds(n.On, pair)
				if err != nil {
					return out.fail(err)
				}
				if !ok {
					continue
				}
			}
			found = pair
			if n.Kind != plan.AsOfJoin && !n.Anti {
				out.add(event{kind: row, step: max(a.step, b.step), row: pair})
			}
		}
		switch {
		case found != nil && n.Kind == plan.AsOfJoin:
			out.add(event{kind: row, step: r.lastStep(), row: found})
		case found == nil && n.Kind == plan.LeftWindowJoin:
			out.add(event{kind: row, step: r.lastStep(), row: slices.Concat(a.row, nulls)})
		}
	}
	return out
}
