package optest

import (
	"fmt"

	"endoscope/planner/plan"
)

// Check runs a plan on an engine and explains how its result differs from the oracle's, or
// returns "". An engine must fail where every evaluation does, and may fail where an eager
// one would.
func Check(e Engine, root plan.Node, in *Input) string {
	got, err := e.Run(root, in)
	want, mustFail := Oracle{}.Run(root, in)
	switch {
	case err != nil && mustFail == nil && !mayFail(root, in):
		return fmt.Sprintf("an error that the oracle has not: %v", err)
	case err == nil && mustFail != nil:
		return fmt.Sprintf("no error, but the oracle has one: %v", mustFail)
	case err != nil:
		return ""
	}
	return Compare(root, got, want)
}

// mayFail reports whether an engine may fail that computes everything it is allowed to:
// every operand, rows beyond a LIMIT, and expressions without columns even if there is no
// row.
func mayFail(root plan.Node, in *Input) bool {
	unlimited := plan.TransformNodes(root, func(n plan.Node) plan.Node {
		if l, ok := n.(*plan.Limit); ok && !l.PerFlush {
			return l.Input
		}
		return n
	})
	if _, err := (Oracle{Eager: true}).Run(unlimited, in); err != nil {
		return true
	}
	fails := false
	for n := range nodes(root) {
		for _, e := range exprsOf(n) {
			plan.Walk(e, func(x plan.Expr) {
				if !hasColumn(x) {
					_, err := scalars{eager: true}.eval(x, nil)
					fails = fails || err != nil
				}
			})
		}
	}
	return fails
}

func hasColumn(e plan.Expr) bool {
	found := false
	plan.Walk(e, func(x plan.Expr) {
		_, ok := x.(*plan.Col)
		found = found || ok
	})
	return found
}

// exprsOf returns the expressions of a node.
func exprsOf(n plan.Node) []plan.Expr {
	switch n := n.(type) {
	case *plan.Acquire:
		return []plan.Expr{n.Filter}
	case *plan.Filter:
		return []plan.Expr{n.Cond}
	case *plan.Project:
		return n.Exprs
	case *plan.Window:
		return n.Spec.PartitionBy
	case *plan.Join:
		return []plan.Expr{n.On}
	case *plan.Aggregate:
		es := append([]plan.Expr(nil), n.Keys...)
		for _, a := range n.Aggs {
			es = append(append(es, a.Args...), a.Filter)
		}
		return es
	case *plan.Sort:
		var es []plan.Expr
		for _, k := range n.Keys {
			es = append(es, k.X)
		}
		return es
	}
	return nil
}
