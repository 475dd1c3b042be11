package rules

import (
	"slices"

	"endoscope/planner/plan"
)

// columnsOf marks the input columns that e reads.
func columnsOf(e plan.Expr, used map[int]bool) {
	plan.Walk(e, func(x plan.Expr) {
		if c, ok := x.(*plan.Col); ok {
			used[c.Index] = true
		}
	})
}

// reads returns the input columns of e.
func reads(e plan.Expr) map[int]bool {
	used := map[int]bool{}
	columnsOf(e, used)
	return used
}

// renumber maps columns to their indexes in another schema.
func renumber(e plan.Expr, to map[int]int) plan.Expr {
	return plan.Transform(e, func(x plan.Expr) plan.Expr {
		if c, ok := x.(*plan.Col); ok && to[c.Index] != c.Index {
			return &plan.Col{Index: to[c.Index], Name: c.Name, T: c.T}
		}
		return x
	})
}

// Stable reports whether a node has the same result wherever and whenever it is executed:
// none of its expressions reads the clock.
func Stable(n plan.Node) bool {
	var es []plan.Expr
	switch n := n.(type) {
	case *plan.Filter:
		es = []plan.Expr{n.Cond}
	case *plan.Project:
		es = n.Exprs
	case *plan.Window:
		es = n.Spec.PartitionBy
	case *plan.Aggregate:
		es = slices.Clone(n.Keys)
		for _, a := range n.Aggs {
			es = append(append(es, a.Args...), a.Filter)
		}
	case *plan.Sort:
		for _, k := range n.Keys {
			es = append(es, k.X)
		}
	}
	return !slices.ContainsFunc(es, plan.Volatile)
}

// constBool returns the value of a constant condition: NULL counts as false, as in a
// filter.
func constBool(e plan.Expr) (value, ok bool) {
	k, ok := e.(*plan.Const)
	if !ok {
		return false, false
	}
	return !k.V.IsNull && k.V.I != 0, true
}

// MapExprs applies f to every expression of a plan.
func MapExprs(root plan.Node, f func(plan.Expr) plan.Expr) plan.Node {
	return plan.TransformNodes(root, func(n plan.Node) plan.Node {
		out, _ := mapExprs(n, func(e plan.Expr) (plan.Expr, bool) {
			x := f(e)
			return x, x != e
		})
		return out
	})
}
