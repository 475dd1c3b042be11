package distribute

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Sessions are determined by the rows of all hosts, so no host knows where one
// ends. Each host sends windows (pieces) as long as the gap, with the times of
// their first and last row. These are less than the gap apart, so all rows of a
// piece are in one session. A session consists of pieces of any hosts, each of
// which begins less than the gap after the end of all previous ones.
//
// A condition above the window determines which rows count, not which ones form
// sessions: it becomes a condition of the aggregates. A condition on the columns
// that sessions are partitioned by determines which sessions exist, and is moved
// below the window: it may restrict what hosts observe.

// pieces changes stage, a copy of an aggregate over sessions, to an aggregate over
// the pieces of sessions. It returns the indexes, among the stage's keys, of the
// aggregate's keys.
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
			c.where = append(c.where, plan.Conjuncts(in.Cond)...)
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
			where = plan.And(where, cond)
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
		f.Filter = plan.And(where, f.Filter)
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

// conditions are the expressions of an aggregate while they are moved down to its
// window.
type conditions struct {
	keys  []plan.Expr
	aggs  []plan.Agg
	where []plan.Expr
}

// substitute rewrites the expressions to the input of a projection.
func (c *conditions) substitute(by []plan.Expr) {
	all := func(es []plan.Expr) []plan.Expr {
		out := make([]plan.Expr, len(es))
		for i, e := range es {
			out[i] = plan.Substitute(e, by)
		}
		return out
	}
	c.keys, c.where = all(c.keys), all(c.where)
	for i := range c.aggs {
		f := &c.aggs[i]
		f.Args = all(f.Args)
		if f.Filter != nil {
			f.Filter = plan.Substitute(f.Filter, by)
		}
	}
}

// reads reports whether an expression reads a column with an index of at least
// from.
func reads(e plan.Expr, from int) (found bool) {
	plan.Walk(e, func(x plan.Expr) {
		c, ok := x.(*plan.Col)
		found = found || ok && c.Index >= from
	})
	return found
}

// ofPartition reports whether a condition only reads what sessions are partitioned
// by.
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
