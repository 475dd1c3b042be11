package selection

import (
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// MarkedPrefix begins the names of marked places, and what is said of them.
const MarkedPrefix = "usdt:"

// SpeaksOfMarked reports whether a selection means marked places, too: only if it
// says so, for whoever asks for all functions asks for calls.
func SpeaksOfMarked(sel plan.Expr) (yes bool) {
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

// meansOnlyMarked reports whether a selection that speaks of marked places can
// mean nothing else.
func meansOnlyMarked(sel plan.Expr) bool {
	if names := NameList(sel); names != nil {
		return !slices.ContainsFunc(names, func(c *plan.Const) bool { return !isMarkedName(c) })
	}
	for _, c := range conjuncts(sel) {
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

// isMarkedName is of names, and of patterns that only such names fit.
func isMarkedName(c *plan.Const) bool {
	return c.V.Type == types.Varchar && strings.HasPrefix(strings.TrimPrefix(c.V.S, "^"), MarkedPrefix)
}
