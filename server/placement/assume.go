package placement

import (
	"endoscope/planner/plan"
)

// assume returns the assumed costs of a fragment's operators before they were
// measured, for EXPLAIN: ns of processor time.
func assume(f *plan.Fragment) assumed {
	a := assumed{passes: 1}
	for n := f.Lower; len(n.Inputs()) == 1; n = n.Inputs()[0] {
		switch n := n.(type) {
		case *plan.Filter:
			a.lower += assumeExpr(n.Cond)
			a.passes *= assumedShare
		case *plan.Project:
			for _, e := range n.Exprs {
				a.lower += assumeExpr(e)
			}
		}
	}
	if p := f.Partial(); p != nil {
		a.stage = 10 // group lookup
		for _, k := range p.Keys {
			a.stage += assumeExpr(k)
		}
		for i := range p.Aggs {
			a.stage += 5
			for _, x := range p.Aggs[i].Args {
				a.stage += assumeExpr(x)
			}
		}
	}
	return a
}

// assumedShare is the assumed share of rows that pass a filter, as in
// textbooks.
const assumedShare = 1. / 3

// assumeExpr returns the assumed cost of an expression per row. Texts are
// expensive, and regular expressions more so.
func assumeExpr(e plan.Expr) (ns float64) {
	plan.Walk(e, func(x plan.Expr) {
		switch x := x.(type) {
		case *plan.Call:
			switch x.Fn {
			case "~", "regexp_extract":
				ns += 300
			case "like", "ilike", "replace", "split_part", "lower", "upper", "substr", "concat", "||", "length":
				ns += 50
			case "format_stack", "folded_stack", "source_stack", "text", "json", "dot", "svg", "xml", "folded", "mermaid":
				ns += 1000
			default:
				ns += 2
			}
		case *plan.Cast, *plan.In, *plan.Case:
			ns += 5
		}
	})
	return ns
}
