package selection

import (
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// MarkedPrefix begins the names of marked places (USDT probes), and the predicates on
// them.
const MarkedPrefix = "usdt:"

// SelectsMarked reports whether a selection includes marked places. They must be
// named explicitly: a query for all functions asks for calls.
func SelectsMarked(sel plan.Expr) (yes bool) {
	plan.Walk(sel, func(e plan.Expr) {
		switch e := e.(type) {
		case *plan.Const:
			yes = yes || isMarkedName(e)
		case *plan.In:
			for i := range e.List {
				yes = yes || isMarkedName(&e.List[i])
			}
		}
	})
	return yes
}

// selectsOnlyMarked reports whether a selection that includes marked places can match
// nothing else.
func selectsOnlyMarked(sel plan.Expr) bool {
	if names := NameList(sel); names != nil {
		return !slices.ContainsFunc(names, func(c *plan.Const) bool { return !isMarkedName(c) })
	}
	for _, c := range plan.Conjuncts(sel) {
		if Mentions(c) != 1<<plan.SelectName {
			continue
		}
		if call, ok := c.(*plan.Call); ok && len(call.Args) == 2 {
			if text, ok := call.Args[1].(*plan.Const); ok && isMarkedName(text) && call.Fn != "<>" && call.Fn != "!=" {
				return true
			}
		}
	}
	return false
}

// isMarkedName reports whether a constant is a name of a marked place, or a pattern
// that matches only such names.
func isMarkedName(c *plan.Const) bool {
	return c.V.Type == types.Varchar && strings.HasPrefix(strings.TrimPrefix(c.V.S, "^"), MarkedPrefix)
}
