package planner

import (
	"slices"

	"endoscope/planner/plan"
)

// same reports whether two expressions over one input are equal. Comparing texts is not
// enough: columns of both sides of a join may have one name.
func same(a, b plan.Expr) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.String() == b.String() && a.Type() == b.Type() && slices.Equal(columnsOf(a), columnsOf(b))
}

// sameAgg is same for aggregates.
func sameAgg(a, b plan.Agg) bool {
	return a.String() == b.String() && slices.EqualFunc(a.Args, b.Args, same) && same(a.Filter, b.Filter)
}

// columnsOf lists the indexes of the columns that an expression reads, in order.
func columnsOf(e plan.Expr) (out []int) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			out = append(out, c.Index)
		}
	})
	return out
}
