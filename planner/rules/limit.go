package rules

import "endoscope/planner/plan"

var limitRules = []Rule{{
	Name:    "limit-into-sort",
	Why:     "the first n of a sorted result need a heap of n rows, not all of them",
	Counter: "LIMIT 0 keeps no row, which a sort cannot express; a limit over the query's life would end it; with an OFFSET the heap has the rows before, too, and the limit stays",
	Apply: on(func(l *plan.Limit) (plan.Node, bool) {
		if !l.PerFlush || l.N == 0 {
			return nil, false
		}
		in := l.Input
		s, ok := in.(*plan.Sort)
		// Columns that only the sort needed are removed above it.
		if p, removes := in.(*plan.Project); removes {
			s, ok = p.Input.(*plan.Sort)
		}
		if !ok {
			return nil, false
		}
		if s.Limit == 0 || s.Limit > l.Reach() {
			c := *s
			c.Limit = l.Reach()
			if s == in {
				in = &c
			} else {
				in = in.WithInputs([]plan.Node{&c})
			}
		}
		if l.Skip == 0 {
			return in, true
		}
		return l.WithInputs([]plan.Node{in}), in != l.Input
	}),
}}
