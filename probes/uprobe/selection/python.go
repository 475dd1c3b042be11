package selection

import (
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// pythonSource ends the names of files with Python's functions.
const pythonSource = ".py"

// SelectsPython reports whether a selection means functions of Python: it asks for a module
// that is a source file of Python. Conditions that only exclude such files do not, since all
// other modules satisfy them.
func SelectsPython(sel plan.Expr) bool {
	switch e := sel.(type) {
	case *plan.In:
		return isColumn(e.X, plan.SelectModule) && slices.ContainsFunc(e.List, func(c plan.Const) bool { return isPythonSource(&c) })
	case *plan.Call:
		if len(e.Args) != 2 {
			return false
		}
		switch e.Fn {
		case "and", "or":
			return SelectsPython(e.Args[0]) || SelectsPython(e.Args[1])
		case "=", "like", "ilike", "~":
			for i, x := range e.Args {
				if c, ok := e.Args[1-i].(*plan.Const); ok && isColumn(x, plan.SelectModule) && isPythonSource(c) {
					return true
				}
			}
		}
	}
	return false
}

// RefuseBareFiles rejects a comparison of module with a source file of Python without folders,
// which would match no module: those of Python are named as the interpreter opened them.
func RefuseBareFiles(spec *plan.Acquire) error {
	for _, c := range listOf(spec.Select, plan.SelectModule) {
		if isPythonSource(c) && !strings.Contains(c.V.S, "/") {
			start, stop := spec.Start, spec.Stop
			if c.Stop > c.Start {
				start, stop = c.Start, c.Stop
			}
			return plan.Errorf(start, stop, "no module is called '%s': modules of Python are files with their folders", c.V.S).
				WithHint("module LIKE '%%/%s'", c.V.S)
		}
	}
	return nil
}

// isPythonSource reports whether a constant is the name of a source file, or a pattern or a
// regular expression that such names end with.
func isPythonSource(c *plan.Const) bool {
	return c.V.Type == types.Varchar && strings.HasSuffix(strings.TrimSuffix(c.V.S, "$"), pythonSource)
}
