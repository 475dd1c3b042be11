package rules

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

var projectRules = []Rule{{
	Name:    "merge-projects",
	Why:     "one projection replaces two; a view that renames columns costs nothing",
	Counter: "an expression that the outer list uses twice would be computed twice, and now() would differ",
	Apply: on(func(p *plan.Project) (plan.Node, bool) {
		in, ok := p.Input.(*plan.Project)
		if !ok {
			return nil, false
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
			if n > 1 && (len(in.Exprs[i].Children()) > 0 || plan.Volatile(in.Exprs[i])) {
				return nil, false
			}
		}
		out := &plan.Project{Input: in.Input, Out: p.Out}
		for _, e := range p.Exprs {
			out.Exprs = append(out.Exprs, plan.Substitute(e, in.Exprs))
		}
		return out, true
	}),
}}

var removeIdentity = Rule{
	Name:    "remove-identity-project",
	Why:     "a list of all columns in their order computes nothing",
	Counter: "it may define the names shown to the user, at the root or below an ORDER BY",
}

func applyIdentity(root plan.Node, _ *Env) (plan.Node, bool) {
	n := stripIdentity(root, true)
	return n, n != root
}

// stripIdentity removes identity projections from n on. read means that the user, or the
// file of an INSERT, reads the names of n's columns: ORDER BY, LIMIT and similar nodes pass
// them on.
func stripIdentity(n plan.Node, read bool) plan.Node {
	if p, ok := n.(*plan.Project); ok && identity(p) && (!read || sameNames(p)) {
		return stripIdentity(p.Input, read)
	}
	switch n.(type) {
	case *plan.Project, *plan.Aggregate, *plan.Union, *plan.Window:
		read = false // they have names of their own
	case *plan.Insert:
		read = true
	}
	ins := n.Inputs()
	next := make([]plan.Node, len(ins))
	changed := false
	for i, in := range ins {
		next[i] = stripIdentity(in, read)
		changed = changed || next[i] != in
	}
	if changed {
		return n.WithInputs(next)
	}
	return n
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
	return slices.EqualFunc(p.Out.Fields, p.Input.Schema().Fields, func(a, b types.Field) bool { return a.Name == b.Name })
}
