package rules

import (
	"slices"

	"endoscope/planner/plan"
)

var projectRules = []Rule{{
	Name:    "merge-projects",
	Why:     "one pass computes what two would; a view that renames columns costs nothing",
	Counter: "an expression that the outer list uses twice would be computed twice, and now() would differ",
	Apply: func(n plan.Node, _ *Env) (plan.Node, bool) {
		p, ok := n.(*plan.Project)
		if !ok {
			return n, false
		}
		in, ok := p.Input.(*plan.Project)
		if !ok {
			return n, false
		}
		uses := map[int]int{}
		for _, e := range p.Exprs {
			plan.Walk(e, func(x plan.Expr) {
				if c, ok := x.(*plan.Col); ok {
					uses[c.Index]++
				}
			})
		}
		for i, n := range uses {
			if n > 1 && (len(in.Exprs[i].Children()) > 0 || volatile(in.Exprs[i])) {
				return p, false
			}
		}
		out := &plan.Project{Input: in.Input, Out: p.Out}
		for _, e := range p.Exprs {
			out.Exprs = append(out.Exprs, substitute(e, in.Exprs))
		}
		return out, true
	},
}}

var removeIdentity = Rule{
	Name:    "remove-identity-project",
	Why:     "a list of all columns in their order computes nothing",
	Counter: "at the root it may give them the names that the user reads",
}

func applyIdentity(root plan.Node, _ *Env) (plan.Node, bool) {
	fired := false
	strip := func(n plan.Node) plan.Node {
		p, ok := n.(*plan.Project)
		if !ok || !identity(p) {
			return n
		}
		fired = true
		return p.Input
	}
	root = plan.TransformNodes(root, func(n plan.Node) plan.Node {
		ins := n.Inputs()
		next := make([]plan.Node, len(ins))
		changed := false
		for i, in := range ins {
			next[i] = strip(in)
			changed = changed || next[i] != in
		}
		if changed {
			return n.WithInputs(next)
		}
		return n
	})
	if p, ok := root.(*plan.Project); ok && identity(p) && sameNames(p) {
		return p.Input, true
	}
	return root, fired
}

func identity(p *plan.Project) bool {
	in := p.Input.Schema()
	if len(p.Exprs) != len(in.Fields) || p.Out.Time != in.Time {
		return false
	}
	for i, e := range p.Exprs {
		if c, ok := e.(*plan.Col); !ok || c.Index != i {
			return false
		}
	}
	return true
}

func sameNames(p *plan.Project) bool {
	return slices.EqualFunc(p.Out.Fields, p.Input.Schema().Fields, func(a, b plan.Field) bool { return a.Name == b.Name })
}
