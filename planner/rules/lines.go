package rules

import "endoscope/planner/plan"

// Lines marks the acquisitions of a plan whose stacks have their files and lines, if the plan
// reads them: other plans do not pay for reading the line tables, and keep stacks that differ only in
// lines as one. All acquisitions of the plan are marked, because a stack may pass through any
// number of sub-queries before its lines are read.
func Lines(root plan.Node) plan.Node {
	if !ReadsLines(root) {
		return root
	}
	return WithLines(root)
}

// ReadsLines reports whether a plan reads the files and lines of stacks.
func ReadsLines(root plan.Node) (needed bool) {
	MapExprs(root, func(e plan.Expr) plan.Expr {
		plan.Walk(e, func(x plan.Expr) {
			if c, ok := x.(*plan.Call); ok && plan.NeedsLines(c.Fn) {
				needed = true
			}
		})
		return e
	})
	return needed
}

// WithLines marks the acquisitions of a plan that have stacks.
func WithLines(root plan.Node) plan.Node {
	return plan.TransformNodes(root, func(n plan.Node) plan.Node {
		if a, ok := n.(*plan.Acquire); ok && a.Out.Index("stack") >= 0 {
			c := *a
			c.Lines = true
			return &c
		}
		return n
	})
}
