package testplan

import (
	"fmt"
	"slices"
	"strings"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func InPlugin() plan.Expr { return Call("and", Named("plug_run"), Is(plan.SelectModule, "libplug.so")) }

// Match is a small evaluator of selections: =, IN, AND, OR, NOT, LIKE 'p%'.
func Match(sel plan.Expr) (func(name, class, module string) (bool, error), error) {
	return func(name, class, module string) (bool, error) {
		return evalSelect(sel, []string{name, class, module})
	}, nil
}

func evalSelect(e plan.Expr, row []string) (bool, error) {
	text := func(x plan.Expr) string {
		if c, ok := x.(*plan.Col); ok {
			return row[c.Index]
		}
		return x.(*plan.Const).V.S
	}
	switch e := e.(type) {
	case *plan.In:
		return slices.ContainsFunc(e.List, func(c plan.Const) bool { return c.V.S == text(e.X) }), nil
	case *plan.Call:
		switch e.Fn {
		case "=":
			return text(e.Args[0]) == text(e.Args[1]), nil
		case "like":
			return strings.HasPrefix(text(e.Args[0]), strings.TrimSuffix(text(e.Args[1]), "%")), nil
		case "not":
			ok, err := evalSelect(e.Args[0], row)
			return !ok, err
		case "and", "or":
			l, err := evalSelect(e.Args[0], row)
			if err != nil || l == (e.Fn == "or") {
				return l, err
			}
			return evalSelect(e.Args[1], row)
		}
	}
	return false, fmt.Errorf("cannot evaluate %s", e)
}

func SelectColumn(i int) plan.Expr {
	return &plan.Col{Index: i, Name: plan.SelectColumns[i], T: types.Varchar}
}

func Call(fn string, args ...plan.Expr) plan.Expr {
	return &plan.Call{Fn: fn, Args: args, T: types.Boolean}
}

func Is(column int, value string) plan.Expr {
	return Call("=", SelectColumn(column), &plan.Const{V: types.Str(value)})
}

// Named selects functions by name.
func Named(names ...string) plan.Expr {
	in := &plan.In{X: SelectColumn(plan.SelectName)}
	for _, n := range names {
		in.List = append(in.List, plan.Const{V: types.Str(n)})
	}
	return in
}

func Constant(s string) plan.Expr { return &plan.Const{V: types.Str(s)} }
