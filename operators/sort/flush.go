package sort

import (
	"slices"

	"endoscope/planner/plan"
)

// Flushes reports whether a node's output is divided into results by Flush.
// Above such a node ORDER BY acts on Flush, elsewhere on Tick.
func Flushes(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Aggregate:
		return n.Windowed || n.Emit.Mode != plan.Changes
	case *plan.Sort:
		return true
	case *plan.Window:
		if n.Hold {
			return true
		}
	case *plan.Join:
		return false
	}
	return slices.ContainsFunc(n.Inputs(), Flushes)
}
