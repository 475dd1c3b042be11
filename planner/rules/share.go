package rules

import (
	"fmt"
	"strings"

	"endoscope/planner/plan"
)

var shareSubplans = Rule{
	Name:    "share-subplans",
	Why:     "the same rows are acquired and computed once, however often the query uses them",
	Counter: "two parts that differ only in a pruned column, or that read now(), are not equal",
}

// applyShare merges equal sub-plans into one node. It runs last, when they have their final
// form.
func applyShare(root plan.Node, _ *Env) (plan.Node, bool) {
	seen := map[string]plan.Node{}
	shared := false
	out := plan.TransformNodes(root, func(n plan.Node) plan.Node {
		key, ok := Fingerprint(n)
		if !ok {
			return n
		}
		if first, have := seen[key]; have && first != n {
			shared = true
			return first
		}
		seen[key] = n
		return n
	})
	if !shared {
		return root, false
	}
	return out, true
}

// Fingerprint is equal for two plans only if they have the same rows, with equal settings.
// ok is false for plans that must not be shared.
func Fingerprint(n plan.Node) (key string, ok bool) {
	var b strings.Builder
	ok = true
	var walk func(plan.Node)
	walk = func(n plan.Node) {
		fmt.Fprintf(&b, "%T %s", n, n.Describe())
		if a, isLeaf := n.(*plan.Acquire); isLeaf {
			fmt.Fprintf(&b, " command=%v follow=%v unread=%v", a.Target.Command, a.Target.Follow, a.FilterOnly)
			ok = ok && !a.OnDemand // each requester gets its own value
		}
		for _, f := range n.Schema().Fields {
			fmt.Fprintf(&b, " %s:%d", f.Name, f.Type)
		}
		eachExpr(n, func(e plan.Expr) {
			ok = ok && !plan.Volatile(e)
			plan.Walk(e, func(x plan.Expr) {
				if c, isCol := x.(*plan.Col); isCol {
					fmt.Fprintf(&b, " $%d", c.Index)
				}
			})
		})
		switch n.(type) {
		case *plan.Insert, *plan.Values:
			ok = false
		}
		b.WriteString("(")
		for _, in := range n.Inputs() {
			walk(in)
		}
		b.WriteString(")")
	}
	walk(n)
	return b.String(), ok
}

// eachExpr visits the expressions of one node.
func eachExpr(n plan.Node, f func(plan.Expr)) {
	if a, ok := n.(*plan.Acquire); ok && a.Filter != nil {
		f(a.Filter)
	}
	mapExprs(n, func(e plan.Expr) (plan.Expr, bool) {
		f(e)
		return e, false
	})
}
