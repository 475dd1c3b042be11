package trigger

import (
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

// Prompt returns the plan with events of functions delivered as they happen.
func Prompt(p *plan.Query) *plan.Query {
	return withAcquires(p, func(a *plan.Acquire) { a.Settings.Prompt = true })
}

// withAcquires returns a copy of a plan with its acquisitions changed.
func withAcquires(p *plan.Query, change func(*plan.Acquire)) *plan.Query {
	out := *p
	out.Root = plan.TransformNodes(p.Root, func(n plan.Node) plan.Node {
		a, ok := n.(*plan.Acquire)
		if !ok {
			return n
		}
		c := *a
		change(&c)
		return &c
	})
	return &out
}

// Unshared returns the plan with acquisitions that are not shared: a shut gate
// must not affect other queries.
func Unshared(p *plan.Query) *plan.Query {
	return withAcquires(p, func(a *plan.Acquire) {
		if observesFunctions(a) {
			a.Settings.Unshared = true
		}
	})
}

// observesFunctions reports whether an acquisition observes calls of functions.
func observesFunctions(a *plan.Acquire) bool {
	c := catalog.Find(a.Stream)
	return c != nil && c.Functions
}
