package rules

import (
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
)

var filterRules = []Rule{
	{
		Name:    "drop-true-filter",
		Why:     "a condition that is always true needs no test",
		Counter: "NULL is not true: WHERE NULL keeps no row",
		Apply: on(func(f *plan.Filter) (plan.Node, bool) {
			v, ok := constBool(f.Cond)
			return f.Input, ok && v
		}),
	},
	{
		Name:    "false-filter-to-empty",
		Why:     "with a condition that is never true nothing is acquired: no probe is attached",
		Counter: "an aggregate above still returns one row over no input, so only the filter's input is removed",
		Apply: on(func(f *plan.Filter) (plan.Node, bool) {
			if v, ok := constBool(f.Cond); !ok || v {
				return nil, false
			}
			return &plan.Values{Out: f.Schema(), Standing: isLive(f.Input)}, true
		}),
	},
	{
		Name:    "split-conjuncts",
		Why:     "the conjuncts of an AND can be pushed down separately",
		Counter: "the disjuncts of an OR cannot be applied one after the other",
		Apply: on(func(f *plan.Filter) (plan.Node, bool) {
			sink, stay := partition(f)
			if len(sink) == 0 || len(stay) == 0 {
				return nil, false
			}
			return &plan.Filter{Input: &plan.Filter{Input: f.Input, Cond: plan.And(sink...)}, Cond: plan.And(stay...)}, true
		}),
	},
	{
		Name:    "merge-filters",
		Why:     "adjacent filters become one condition",
		Counter: "a condition that can be pushed down is kept separate from one that cannot",
		Apply: onFiltered(func(f, in *plan.Filter) (plan.Node, bool) {
			sink, _ := partition(&plan.Filter{Input: in.Input, Cond: f.Cond})
			_, inStay := partition(in)
			if len(sink) == 0 && len(inStay) == 0 {
				return nil, false // as split-conjuncts leaves them
			}
			return &plan.Filter{Input: in.Input, Cond: plan.And(in.Cond, f.Cond)}, true
		}),
	},
	pushRule("push-filter-through-project",
		"no expressions are computed for dropped rows",
		"a condition on now(), or on any other volatile column, would test a different value than the one shown",
		func(p *plan.Project, cond plan.Expr) plan.Node {
			c := *p
			c.Input = &plan.Filter{Input: p.Input, Cond: plan.Substitute(cond, p.Exprs)}
			return &c
		}),
	pushRule("push-filter-through-window",
		"dropped rows need no window, and below it the condition can reach the acquisition",
		"window_start and window_end do not exist below; a SESSION ends where rows are missing, so only conditions on its PARTITION BY preserve its borders",
		func(w *plan.Window, cond plan.Expr) plan.Node {
			c := *w
			c.Input = &plan.Filter{Input: w.Input, Cond: cond}
			return &c
		}),
	pushRule("push-filter-through-aggregate",
		"a condition on group keys drops whole groups, which need not be built",
		"a condition on an aggregate's value needs all rows; without keys the one group exists even over no rows",
		func(a *plan.Aggregate, cond plan.Expr) plan.Node {
			c := *a
			c.Input = &plan.Filter{Input: a.Input, Cond: plan.Substitute(cond, a.Keys)}
			return &c
		}),
	pushRule("push-filter-through-union",
		"each input drops its own rows, and the condition can reach its acquisition",
		"none: the inputs' columns are the union's",
		func(u *plan.Union, cond plan.Expr) plan.Node {
			c := *u
			c.Ins = nil
			for _, in := range u.Ins {
				c.Ins = append(c.Ins, &plan.Filter{Input: in, Cond: cond})
			}
			return &c
		}),
	pushRule("push-filter-through-sort",
		"fewer rows are sorted",
		"not below a sort that keeps only the first rows, which would then be different rows",
		func(s *plan.Sort, cond plan.Expr) plan.Node {
			c := *s
			c.Input = &plan.Filter{Input: s.Input, Cond: cond}
			return &c
		}),
	pushRule("push-filter-through-distinct",
		"fewer rows are remembered",
		"none: equal rows satisfy equal conditions",
		func(d *plan.Distinct, cond plan.Expr) plan.Node {
			c := *d
			c.Input = &plan.Filter{Input: d.Input, Cond: cond}
			return &c
		}),
}

// isLive reports whether n acquires anything unbounded.
func isLive(n plan.Node) bool {
	return slices.ContainsFunc(plan.Leaves(n), func(a *plan.Acquire) bool {
		s := catalog.Find(a.Stream)
		return a.Stream != "file" && a.Stream != "series" && (s == nil || s.Kind != catalog.Snapshot || a.Every > 0)
	})
}

// pushRule returns a rule that moves a filter below a node of type N.
func pushRule[N plan.Node](name, why, counter string, apply func(N, plan.Expr) plan.Node) Rule {
	return Rule{Name: name, Why: why, Counter: counter, Apply: onFiltered(func(f *plan.Filter, in N) (plan.Node, bool) {
		if !sinks(f.Input, f.Cond) {
			return nil, false
		}
		return apply(in, f.Cond), true
	})}
}

// partition separates the conjuncts of a filter that may move below its input from those
// that may not.
func partition(f *plan.Filter) (sink, stay []plan.Expr) {
	for _, c := range plan.Conjuncts(f.Cond) {
		if sinks(f.Input, c) {
			sink = append(sink, c)
		} else {
			stay = append(stay, c)
		}
	}
	return sink, stay
}

// sinks reports whether a condition over n's rows may be applied below n.
func sinks(n plan.Node, cond plan.Expr) bool {
	if plan.Volatile(cond) {
		return false
	}
	used := reads(cond)
	switch n := n.(type) {
	case *plan.Acquire, *plan.Union, *plan.Distinct:
		return true
	case *plan.Sort:
		return n.Limit == 0
	case *plan.Project:
		for i := range used {
			if plan.Volatile(n.Exprs[i]) {
				return false
			}
		}
		return true
	case *plan.Window:
		by := map[int]bool{}
		for _, e := range n.Spec.PartitionBy {
			if c, ok := e.(*plan.Col); ok {
				by[c.Index] = true
			}
		}
		inner := len(n.Input.Schema().Fields)
		for i := range used {
			if i >= inner || n.Spec.Kind == plan.Session && !by[i] {
				return false
			}
		}
		return len(used) > 0
	case *plan.Join:
		return joinTakes(n, cond)
	case *plan.Aggregate:
		for i := range used {
			if i >= len(n.Keys) || plan.Volatile(n.Keys[i]) {
				return false
			}
		}
		return len(used) > 0
	}
	return false
}
