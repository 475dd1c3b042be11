package graph_test

import (
	"strings"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Columns are computed, renamed, reordered and repeated.
func TestProject(t *testing.T) {
	got := play.Run(t, testplan.Projection(testplan.Relation("x:bigint s:varchar")), operators.Options{}, `
		1 a
		null b
		--
		3 null
		wm 3
		4 a
		close`)
	testplan.Expect(t, got, `
		A 2 1 1
		B null null null
		null 4 3 3
		wm 3
		A 5 4 4
		close`)
}

// What a consumer keeps is not overwritten by the next batch, neither in the
// shared columns nor in the computed ones.
func TestProjectResultMayBeKept(t *testing.T) {
	in := testplan.Relation("x:bigint s:varchar")
	k := &testplan.Keeper{}
	g, err := graph.Build(testplan.Projection(testplan.Positive(in)), k, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pool := batch.NewPool(in.Out.Types())
	for i := range 4 {
		b := pool.Get()
		b.AppendRow(types.Int(-1), types.Str("no"))
		b.AppendRow(types.Int(int64(i+1)), types.Str("s"+string(rune('a'+i))))
		if _, err := g.Leaves[0].Op.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	for _, b := range k.Kept {
		k.Recorder.Push(t.Context(), 0, b)
		b.Release()
	}
	testplan.Expect(t, k.Text.String(), `
		SA 2 1 1
		SB 3 2 2
		SC 4 3 3
		SD 5 4 4`)
}

// Results of every layout are copied out of the programs that own them.
func TestProjectTypes(t *testing.T) {
	in := testplan.Relation("x:bigint f:double s:varchar l:list")
	exprs := []plan.Expr{
		testplan.Call(types.Boolean, ">", testplan.Column(in, "x"), testplan.Literal(types.Int(1))),
		testplan.Call(types.Double, "neg", testplan.Column(in, "f")),
		testplan.Call(types.Varchar, "||", testplan.Column(in, "s"), testplan.Literal(types.Str("!"))),
		testplan.Call(types.List, "coalesce", testplan.Column(in, "l"), testplan.Column(in, "l")),
		testplan.Literal(types.NullOf(types.Null)),
	}
	n := &plan.Project{Input: in, Exprs: exprs, Out: types.Schema{Time: -1}}
	for _, e := range exprs {
		n.Out.Fields = append(n.Out.Fields, types.Field{Name: e.String(), Type: e.Type()})
	}
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 1.5 a p,q
		2 -1 b r
		null null null null
		close`), `
		false -1.5 a! p,q null
		true 1 b! r null
		null null null null null
		close`)
}

// An error in a value ends the query, wherever it is computed.
func TestErrorsInExpressions(t *testing.T) {
	in := testplan.Relation("x:bigint")
	next := testplan.Call(types.Bigint, "+", testplan.Column(in, "x"), testplan.Literal(types.Int(1)))
	for _, n := range []plan.Node{
		&plan.Project{Input: in, Exprs: []plan.Expr{next}, Out: types.Schema{Fields: []types.Field{{Name: "y", Type: types.Bigint}}, Time: -1}},
		&plan.Filter{Input: in, Cond: testplan.Call(types.Boolean, ">", next, testplan.Literal(types.Int(0)))},
		&plan.Sort{Input: in, Keys: []plan.SortKey{{X: next}}},
	} {
		got := play.Run(t, n, operators.Options{}, "9223372036854775807\nclose")
		if !strings.HasPrefix(got, "error: ") || strings.Contains(got, "close") {
			t.Errorf("%s: %s", n.Describe(), got)
		}
	}
}
