package rules

import (
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Only plans that read the lines of stacks acquire them, also from the outside of a sub-query,
// and only with streams that have stacks.
func TestLines(t *testing.T) {
	leaf := func(column string) *plan.Acquire {
		return &plan.Acquire{Out: types.Schema{Fields: []types.Field{{Name: column, Type: types.List}}}}
	}
	read := func(fn string, of plan.Node) plan.Node {
		call := &plan.Call{Fn: fn, Args: []plan.Expr{&plan.Col{Name: "s", T: types.List}, &plan.Const{V: types.Int(0)}}, T: types.Bigint}
		return &plan.Filter{Input: of, Cond: &plan.Call{Fn: "is null", Args: []plan.Expr{call}, T: types.Boolean}}
	}
	for _, c := range []struct {
		fn, column string
		want       bool
	}{{"frame", "stack", false}, {"frame.module", "stack", false}, {"frame.line", "stack", true}, {"frame.file", "stack", true}, {"frame.inlined", "stack", true},
		{"source_stack", "stack", true}, {"frame.line", "retval", false}} {
		own := leaf(c.column)
		root := Lines(read(c.fn, &plan.Limit{Input: own, N: 1}))
		if got := plan.Leaves(root)[0].Lines; got != c.want || own.Lines {
			t.Errorf("%s of %s: lines %v, want %v; of the plan that was given %v", c.fn, c.column, got, c.want, own.Lines)
		}
	}
}
