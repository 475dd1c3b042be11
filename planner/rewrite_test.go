package planner_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/expr"
	"endoscope/operators/optest"
	"endoscope/operators/optest/seeds"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
)

// TestRewriteKeepsMeaning checks that a plan returns the same rows, under the same names,
// before and after rewriting. It may lose errors (a filter that moved down drops the row
// that would have failed), not add any, and count fewer rows as late.
func TestRewriteKeepsMeaning(t *testing.T) {
	seeds.Check(t, 20, rewriteKeepsMeaning)
}

func rewriteKeepsMeaning(t *rapid.T) {
	root, in := optest.RandomPlan(t), optest.RandomInput(t)
	before := optest.Tree(root)
	want, err := (optest.Oracle{Eager: true}).Run(root, in)
	if err != nil {
		return
	}
	rewritten, fired, err := rules.Rewrite(root, &rules.Env{Eval: expr.EvalConst})
	if err != nil {
		t.Fatalf("%v\n%s", err, before)
	}
	if optest.Tree(root) != before {
		t.Fatalf("the plan itself was changed\n%s--- before\n%s", optest.Tree(root), before)
	}
	if slices.Contains(fired, "false-filter-to-empty") && every(root) {
		return // a stream of no rows ends before the first interval does
	}
	got, err := optest.Oracle{}.Run(rewritten, in)
	got.Lost, want.Lost = nil, nil // a row that is dropped earlier is not late
	diff := ""
	if err != nil {
		diff = "an error that was none before: " + err.Error()
	} else {
		diff = optest.Compare(root, got, want)
	}
	for i, f := range root.Schema().Fields {
		if name := rewritten.Schema().Fields[i].Name; name != f.Name {
			diff = "column " + f.Name + " is called " + name
		}
	}
	if diff != "" {
		t.Fatalf("%s\n--- before\n%s--- after %v\n%s--- input\n%s", diff, before, fired, optest.Tree(rewritten), optest.FormatInput(in))
	}
}

// every reports whether a plan emits results at intervals.
func every(n plan.Node) bool {
	switch n := n.(type) {
	case *plan.Aggregate:
		if n.Emit.Mode == plan.Every {
			return true
		}
	case *plan.Sort:
		if n.Emit.Mode == plan.Every {
			return true
		}
	}
	return slices.ContainsFunc(n.Inputs(), every)
}
