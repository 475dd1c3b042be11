package rules

import (
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var foldRules = []Rule{{
	Name:    "fold-constants",
	Why:     "an expression without columns has one value: it is computed once, and other rules can use it",
	Counter: "now() differs from row to row; an expression that fails (1 / 0 does not, 9223372036854775807 + 1 does) may be in a branch that is never taken, and must fail only there",
	Apply: func(n plan.Node, env *Env) (plan.Node, bool) {
		return mapExprs(n, func(e plan.Expr) (plan.Expr, bool) {
			changed := false
			e = plan.Transform(e, func(x plan.Expr) plan.Expr {
				if y, ok := fold(x, env); ok {
					changed = true
					return y
				}
				return x
			})
			return e, changed
		})
	},
}}

// maxFoldedText is the longest text that is folded: each step of 'a' || 'b' || 'c' ... copies
// it.
const maxFoldedText = 4096

func fold(e plan.Expr, env *Env) (plan.Expr, bool) {
	if y, ok := foldLogic(e); ok {
		return y, true
	}
	switch e.(type) {
	case *plan.Const, *plan.Col:
		return nil, false
	}
	if plan.Volatile(e) || e.Type().Physical() == types.PhysAny {
		return nil, false
	}
	for _, c := range e.Children() {
		k, ok := c.(*plan.Const)
		if !ok || len(k.V.S) > maxFoldedText {
			return nil, false
		}
	}
	v, err := env.Eval(e)
	if err != nil {
		return nil, false
	}
	return &plan.Const{V: v}, true
}

// foldLogic simplifies AND, OR and NOT with one constant operand.
func foldLogic(e plan.Expr) (plan.Expr, bool) {
	c, ok := e.(*plan.Call)
	if !ok {
		return nil, false
	}
	switch c.Fn {
	case "not":
		if in, ok := c.Args[0].(*plan.Call); ok && in.Fn == "not" {
			return in.Args[0], true
		}
	case "and", "or":
		for i, a := range c.Args {
			k, ok := a.(*plan.Const)
			if !ok || k.V.IsNull {
				continue
			}
			if other := c.Args[1-i]; (k.V.I != 0) == (c.Fn == "and") {
				return other, true // true AND x, false OR x
			}
			return &plan.Const{V: k.V}, true // false AND x, true OR x
		}
	}
	return nil, false
}

// mapExprs applies f to every expression of a node.
func mapExprs(n plan.Node, f func(plan.Expr) (plan.Expr, bool)) (plan.Node, bool) {
	changed := false
	do := func(e plan.Expr) plan.Expr {
		if e == nil {
			return nil
		}
		x, ok := f(e)
		changed = changed || ok
		return x
	}
	list := func(es []plan.Expr) []plan.Expr {
		out := make([]plan.Expr, len(es))
		for i, e := range es {
			out[i] = do(e)
		}
		return out
	}
	var out plan.Node
	switch n := n.(type) {
	case *plan.Filter:
		out = &plan.Filter{Input: n.Input, Cond: do(n.Cond)}
	case *plan.Project:
		out = &plan.Project{Input: n.Input, Exprs: list(n.Exprs), Out: n.Out}
	case *plan.Window:
		c := *n
		c.Spec.PartitionBy = list(n.Spec.PartitionBy)
		out = &c
	case *plan.Aggregate:
		c := *n
		c.Keys = list(n.Keys)
		c.Aggs = make([]plan.Agg, len(n.Aggs))
		for i, a := range n.Aggs {
			a.Args, a.Filter = list(a.Args), do(a.Filter)
			c.Aggs[i] = a
		}
		out = &c
	case *plan.Join:
		c := *n
		c.On = do(n.On)
		out = &c
	case *plan.Sort:
		c := *n
		c.Keys = make([]plan.SortKey, len(n.Keys))
		for i, k := range n.Keys {
			c.Keys[i] = plan.SortKey{X: do(k.X), Desc: k.Desc}
		}
		out = &c
	}
	if !changed {
		return n, false
	}
	return out, true
}
