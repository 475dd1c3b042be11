package optest

import (
	"cmp"
	"math"
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// rowsOfGroup is a group: its key and its rows, in order of arrival.
type rowsOfGroup struct {
	key  []types.Value
	rows [][]types.Value
}

// groups are in order of first appearance.
type groups struct {
	list []*rowsOfGroup
	by   map[string]*rowsOfGroup
}

func (g *groups) find(vs []types.Value) *rowsOfGroup {
	k := key(vs)
	if g.by == nil {
		g.by = map[string]*rowsOfGroup{}
	}
	if g.by[k] == nil {
		g.by[k] = &rowsOfGroup{key: vs}
		g.list = append(g.list, g.by[k])
	}
	return g.by[k]
}

func (r *run) aggregate(n *plan.Aggregate, in *stream) *stream {
	if n.Windowed {
		return r.aggregateWindows(n, in)
	}
	out := &stream{err: in.err}
	all := &groups{}
	if len(n.Keys) == 0 {
		all.find(nil) // there is one group, even without rows
	}
	var changed []*rowsOfGroup
	fresh, printed := true, false // since the last result
	give := func(list []*rowsOfGroup, e event) error {
		for _, g := range list {
			vs, err := r.results(n, g, e.time-r.in.Start)
			if err != nil {
				return err
			}
			out.add(event{kind: row, step: e.step, row: vs})
		}
		return nil
	}
	clock := r.in.Start
	for _, e := range in.events {
		var err error
		switch e.kind {
		case row:
			var vs []types.Value
			if vs, err = r.all(n.Keys, e.row); err == nil {
				err = r.mayFold(n, e.row)
			}
			if err != nil {
				return out.fail(err)
			}
			g := all.find(vs)
			g.rows = append(g.rows, e.row)
			if fresh = true; !slices.Contains(changed, g) {
				changed = append(changed, g)
			}
			continue
		case flush:
			continue // of a result below
		case endBatch:
			if n.Emit.Mode == plan.Changes {
				err = give(changed, event{step: e.step, time: clock})
			}
			changed = nil
		case tick:
			clock = e.time
			if n.Emit.Mode == plan.Every {
				if err = give(all.list, e); err == nil {
					out.add(event{kind: flush, step: e.step})
				}
				fresh, printed = false, true
			}
		}
		if err != nil {
			return out.fail(err)
		}
		out.add(e)
	}
	if in.err != nil || n.Emit.Mode == plan.Changes || printed && !fresh {
		return out
	}
	if err := give(all.list, event{step: r.lastStep(), time: clock}); err != nil {
		return out.fail(err)
	}
	out.add(event{kind: flush, step: r.lastStep()})
	return out
}

// aggregateWindows emits the groups of a window when the watermark passes its end. Rows
// that come later are late.
func (r *run) aggregateWindows(n *plan.Aggregate, in *stream) *stream {
	out := &stream{err: in.err}
	start := slices.IndexFunc(n.Keys, func(k plan.Expr) bool {
		c, ok := k.(*plan.Col)
		return ok && c.Name == "window_start"
	})
	open := map[border]*groups{}
	closed := int64(math.MinInt64)
	closeTo := func(t int64, step int) error {
		var ws []border
		for w := range open {
			if w.end <= t {
				ws = append(ws, w)
			}
		}
		slices.SortFunc(ws, func(a, b border) int {
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start))
		})
		for _, w := range ws {
			for _, g := range open[w].list {
				vs, err := r.results(n, g, w.end-w.start)
				if err != nil {
					return err
				}
				out.add(event{kind: row, step: step, row: vs})
			}
			out.add(event{kind: flush, step: step})
			delete(open, w)
		}
		return nil
	}
	for _, e := range in.events {
		switch e.kind {
		case row:
			keys, err := r.all(n.Keys, e.row)
			if err == nil {
				err = r.mayFold(n, e.row)
			}
			if err != nil {
				return out.fail(err)
			}
			w := border{end: keys[n.WindowEnd].I}
			if start >= 0 {
				w.start = keys[start].I
			}
			if w.end <= closed {
				out.add(event{kind: lost, step: e.step, cause: "late", n: 1})
				continue
			}
			if open[w] == nil {
				open[w] = &groups{}
			}
			g := open[w].find(keys)
			g.rows = append(g.rows, e.row)
			continue
		case flush, endBatch:
			continue
		case watermark:
			closed = max(closed, e.time)
			if err := closeTo(closed, e.step); err != nil {
				return out.fail(err)
			}
		}
		out.add(e)
	}
	if in.err == nil {
		if err := closeTo(math.MaxInt64, r.lastStep()); err != nil {
			return out.fail(err)
		}
	}
	return out
}

// mayFold computes the arguments of a row's aggregates, for their errors.
func (r *run) mayFold(n *plan.Aggregate, vs []types.Value) error {
	for i := range n.Aggs {
		if _, _, err := r.argument(&n.Aggs[i], vs); err != nil {
			return err
		}
	}
	return nil
}

// argument returns the argument of an aggregate for a row, and whether the row counts.
func (r *run) argument(a *plan.Agg, vs []types.Value) (v types.Value, counts bool, err error) {
	counts = true
	if a.Filter != nil {
		if counts, err = r.holds(a.Filter, vs); err != nil {
			return v, false, err
		}
	}
	if len(a.Args) > 0 && (counts || r.eager) {
		v, err = r.scalars.eval(a.Args[0], vs)
	}
	return v, counts, err
}

// results returns the output row of a group: its key, then its aggregates.
func (r *run) results(n *plan.Aggregate, g *rowsOfGroup, elapsed int64) ([]types.Value, error) {
	t := n.Input.Schema().Time
	out := slices.Clone(g.key)
	for i := range n.Aggs {
		var members []member
		for _, vs := range g.rows {
			v, counts, err := r.argument(&n.Aggs[i], vs)
			if err != nil {
				return nil, err
			}
			if !counts {
				continue
			}
			m := member{v: v, time: int64(len(members))}
			if t >= 0 {
				m.time = vs[t].I
			}
			members = append(members, m)
		}
		v, err := fold(&n.Aggs[i], members, elapsed)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
