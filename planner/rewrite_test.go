package planner_test

import (
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators/expr"
	"endoscope/operators/optest"
	"endoscope/planner/plan"
	"endoscope/planner/rules"
)

// TestRewriteKeepsMeaning holds the rewriter to its promise: a plan gives the
// same rows, under the same names, before and after. It may lose errors (a
// filter that moved down drops the row that would have failed), not add any.
func TestRewriteKeepsMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		root, in := optest.RandomPlan(t), optest.RandomInput(t)
		before := plan.Tree(root)
		want, err := (optest.Oracle{Eager: true}).Run(root, in)
		if err != nil {
			return
		}
		rewritten, fired, err := rules.Rewrite(root, &rules.Env{Eval: expr.EvalConst})
		if err != nil {
			t.Fatalf("%v\n%s", err, before)
		}
		if plan.Tree(root) != before {
			t.Fatalf("the plan itself was changed\n%s--- before\n%s", plan.Tree(root), before)
		}
		got, err := optest.Oracle{}.Run(rewritten, in)
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
			t.Fatalf("%s\n--- before\n%s--- after %v\n%s--- input\n%s", diff, before, fired, plan.Tree(rewritten), optest.FormatInput(in))
		}
	})
}
