package distribute

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Which rows make a session follows from the rows of all hosts, so that no host knows
// where one ends. Each gives windows that are as long as the gap, and when the first and
// the last row of them was: these are less than the gap apart, so that all rows of such
// a piece are of one session, and a session is pieces of any hosts of which each begins
// less than the gap after all before it have ended.
//
// A condition above the window says which rows count, not which ones make sessions: it
// becomes one of what is aggregated. One of what sessions are partitioned by says which
// sessions there are, and goes below: it may decide what hosts observe.

// pieces makes stage, a copy of an aggregate over sessions, one over the pieces of
// sessions. keys are those of the stage that are the aggregate's.
func (d *divider) pieces(a, stage *plan.Aggregate, x *plan.Exchange) (keys []int, err error) {
	c := conditions{aggs: stage.Aggs, keys: slices.Clone(a.Keys)}
	n := a.Input
	for {
		switch in := n.(type) {
		case *plan.Project:
			c.substitute(in.Exprs)
			n = in.Input
			continue
		case *plan.Filter:
			c.where = append(c.where, conjuncts(in.Cond)...)
			n = in.Input
			continue
		}
		break
	}
	w := n.(*plan.Window)
	inner := len(w.Input.Schema().Fields)
	below := w.Input
	var where plan.Expr
	for _, cond := range c.where {
		if ofPartition(cond, w.Spec.PartitionBy) {
			below = &plan.Filter{Input: below, Cond: cond}
		} else {
			where = and(where, cond)
		}
	}
	start, end := a.Borders()
	borders := where != nil && reads(where, inner)
	for i, k := range c.keys {
		borders = borders || i != start && i != end && reads(k, inner)
		if i != start && i != end && where != nil {
			c.keys[i] = &plan.Case{Whens: []plan.When{{Cond: where, Then: k}}, T: k.Type()}
		}
	}
	for i := range c.aggs {
		f := &c.aggs[i]
		for _, arg := range append(slices.Clone(f.Args), f.Filter) {
			borders = borders || reads(arg, inner)
		}
		f.Filter = and(where, f.Filter)
	}
	if borders {
		at := d.innerBorder(a)
		return nil, refusal(at.Pos, at.Src, "HAVING can test "+at.Src[at.Pos.Start:at.Pos.Stop], "a host does not know where a SESSION of several hosts begins and ends")
	}
	piece := *w
	piece.Input = below
	piece.Spec = plan.WindowSpec{Kind: plan.Tumble, Size: w.Spec.Gap, Time: w.Spec.Time}
	t := w.Out.Fields[w.Spec.Time]
	at := &plan.Col{Index: w.Spec.Time, Name: t.Name, T: t.Type}
	spans := []plan.Agg{
		{Fn: "min", Args: []plan.Expr{at}, T: t.Type},
		{Fn: "max", Args: []plan.Expr{at}, T: t.Type},
		{Fn: "count", Star: true, Filter: where, T: types.Bigint},
	}
	for i := range c.keys {
		keys = append(keys, i)
	}
	stage.Input, stage.Keys = &piece, append(c.keys, w.Spec.PartitionBy...)
	stage.Aggs = append(spans, c.aggs...)

	x.Gap = w.Spec.Gap
	x.Spans.Partition, x.Spans.Partitions = 1+len(c.keys), len(w.Spec.PartitionBy)
	column := 1 + len(stage.Keys)
	for i, name := range []string{"value", "value", "n"} {
		fields, ok := plan.StateFields(&spans[i])
		if !ok {
			return nil, d.unmerged(a, stage)
		}
		*[]*int{&x.Spans.First, &x.Spans.Last, &x.Spans.Count}[i] = column + slices.IndexFunc(fields, func(f types.Field) bool { return f.Name == name })
		column += len(fields)
	}
	return keys, nil
}

// conditions are the expressions of an aggregate on their way down to its window.
type conditions struct {
	keys  []plan.Expr
	aggs  []plan.Agg
	where []plan.Expr
}

// substitute passes a projection.
func (c *conditions) substitute(by []plan.Expr) {
	all := func(es []plan.Expr) []plan.Expr {
		out := make([]plan.Expr, len(es))
		for i, e := range es {
			out[i] = substitute(e, by)
		}
		return out
	}
	c.keys, c.where = all(c.keys), all(c.where)
	for i := range c.aggs {
		f := &c.aggs[i]
		f.Args = all(f.Args)
		if f.Filter != nil {
			f.Filter = substitute(f.Filter, by)
		}
	}
}

func substitute(e plan.Expr, by []plan.Expr) plan.Expr {
	return plan.Transform(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Col); ok {
			return by[c.Index]
		}
		return x
	})
}

func conjuncts(e plan.Expr) []plan.Expr {
	if c, ok := e.(*plan.Call); ok && c.Fn == "and" {
		return append(conjuncts(c.Args[0]), conjuncts(c.Args[1])...)
	}
	return []plan.Expr{e}
}

func and(a, b plan.Expr) plan.Expr {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return &plan.Call{Fn: "and", Args: []plan.Expr{a, b}, T: types.Boolean}
}

// reads reports whether an expression reads a column from one on.
func reads(e plan.Expr, from int) (found bool) {
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Col)
		found = found || ok && c.Index >= from
	})
	return found
}

// ofPartition reports whether a condition is about what sessions are partitioned by
// alone.
func ofPartition(cond plan.Expr, by []plan.Expr) bool {
	some, other := false, false
	plan.Walk(cond, func(x plan.Expr) {
		switch x := x.(type) {
		case *plan.Col:
			some = true
			other = other || !slices.ContainsFunc(by, func(b plan.Expr) bool {
				c, ok := b.(*plan.Col)
				return ok && c.Index == x.Index
			})
		case *plan.Call:
			f := plan.FindScalar(x.Fn)
			other = other || f != nil && f.Volatile // of now() it would be about when
		}
	})
	return some && !other
}
