package query

import (
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// startsOver reports whether n, executed again, returns its first rows again: all
// inputs of one of its SELECTs have a beginning, as a file has. A LIMIT at the top is
// applied by the client; one below selects the first rows.
func startsOver(n plan.Node, top bool) bool {
	switch n := n.(type) {
	case *plan.Acquire:
		if n.OnDemand { // sampled for the rows of the join's other side
			return true
		}
		if n.Every > 0 {
			return false
		}
		s := catalog.Find(n.Stream)
		return n.Stream == "file" || n.Stream == "series" || s != nil && s.Kind == catalog.Snapshot
	case *plan.Values:
		return true
	case *plan.Limit:
		return !top || startsOver(n.Input, false)
	case *plan.Sort:
		return n.Limit > 0 && !top || startsOver(n.Input, false)
	case *plan.Union:
		return slices.ContainsFunc(n.Ins, func(in plan.Node) bool { return startsOver(in, false) })
	case *plan.Project:
		return startsOver(n.Input, top)
	}
	return !slices.ContainsFunc(n.Inputs(), func(in plan.Node) bool { return !startsOver(in, false) })
}

// timed reports whether the watermarks of a plan are times rather than line
// numbers.
func timed(root plan.Node) bool {
	return !slices.ContainsFunc(plan.Leaves(root), func(a *plan.Acquire) bool {
		return a.Out.Time >= 0 && a.Out.Fields[a.Out.Time].Type != types.Timestamp
	})
}
