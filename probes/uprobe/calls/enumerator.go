package calls

import (
	"maps"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
)

// CheckEnumerators rejects a condition that compares an enum with a name that none of
// its numbers has: such a condition can never hold.
func CheckEnumerators(filter plan.Expr, columns []*Value) (err error) {
	check := func(x plan.Expr, consts ...plan.Const) {
		c, ok := x.(*plan.Col)
		if !ok || columns[c.Index] == nil {
			return
		}
		v := columns[c.Index]
		if len(v.Enums) == 0 || v.T != types.Varchar || slices.ContainsFunc(v.Enums, func(names map[int64]string) bool { return names == nil }) {
			return
		}
		for _, k := range consts {
			shown := slices.ContainsFunc(v.Enums, func(names map[int64]string) bool {
				_, ok := codegen.EnumNumber(names, k.V.S)
				return ok
			})
			if err == nil && !shown && !k.V.IsNull && k.V.Type == types.Varchar && k.Param == nil {
				err = noEnumerator(v, k)
			}
		}
	}
	plan.Walk(filter, func(x plan.Expr) {
		switch x := x.(type) {
		case *plan.In:
			check(x.X, x.List...)
		case *plan.Call:
			if x.Fn != "=" && x.Fn != "<>" {
				return
			}
			for i, arg := range x.Args {
				if k, ok := arg.(*plan.Const); ok {
					check(x.Args[1-i], *k)
				}
			}
		}
	})
	return err
}

// noEnumerator returns the error for an enum without the constant k. It lists the
// names that the enum has.
func noEnumerator(v *Value, k plan.Const) error {
	var names []string
	for _, e := range v.Enums {
		names = slices.AppendSeq(names, maps.Values(e))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	e := plan.Errorf(k.Start, k.Stop, "%s is an enum that has no %s", v.Name, k.V.S)
	if near := plan.Nearest(k.V.S, names, 2); len(near) > 0 {
		return e.WithHint("did you mean '%s'?", strings.Join(near, "' or '"))
	}
	return e.WithHint("it has %s", strings.Join(names[:min(len(names), 12)], ", "))
}
