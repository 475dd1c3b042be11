package rules

import "endoscope/planner/plan"

var limitRules = []Rule{{
	Name:    "limit-into-sort",
	Why:     "the first n of a sorted result need a heap of n rows, not all of them",
	Counter: "LIMIT 0 keeps no row, which a sort cannot express; a limit over the query's life would end it",
	Apply: on(func(l *plan.Limit) (plan.Node, bool) {
		if !l.PerFlush || l.N == 0 {
			return nil, false
		}
		switch in := l.Input.(type) {
		case *plan.Sort:
			if in.Limit > 0 && in.Limit <= l.N {
				return in, true
			}
			c := *in
			c.Limit = l.N
			return &c, true
		case *plan.Project:
			// Columns that only the sort needed are removed above it.
			if s, ok := in.Input.(*plan.Sort); ok {
				c := *s
				if c.Limit == 0 || c.Limit > l.N {
					c.Limit = l.N
				}
				return in.WithInputs([]plan.Node{&c}), true
			}
		}
		return nil, false
	}),
}}
