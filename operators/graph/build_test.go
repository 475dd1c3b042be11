package graph_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/play"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func constants(rows ...[]types.Value) *plan.Values {
	v := &plan.Values{Out: types.Schema{Time: -1}}
	for i := range rows[0] {
		v.Out.Fields = append(v.Out.Fields, types.Field{Name: fmt.Sprint("c", i), Type: rows[0][i].Type})
	}
	for _, r := range rows {
		cs := make([]plan.Const, len(r))
		for i := range r {
			cs[i].V = r[i]
		}
		v.Rows = append(v.Rows, cs)
	}
	return v
}

// Constant relations have no source: StartValues runs them.
func TestValues(t *testing.T) {
	rec := &testplan.Recorder{}
	v := constants([]types.Value{types.Int(1), types.Str("a")}, []types.Value{types.NullOf(types.Bigint), types.Str("b")})
	g, err := graph.Build(v, rec, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Leaves) != 0 {
		t.Errorf("%d leaves", len(g.Leaves))
	}
	if err := g.StartValues(t.Context()); err != nil {
		t.Fatal(err)
	}
	testplan.Expect(t, rec.Text.String(), "1 a\nnull b\nclose")
}

func TestValuesInBatches(t *testing.T) {
	var rows [][]types.Value
	for i := range 2500 {
		rows = append(rows, []types.Value{types.Int(int64(i))})
	}
	k := &testplan.Keeper{}
	g, err := graph.Build(constants(rows...), k, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.StartValues(t.Context()); err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, b := range k.Kept {
		sizes = append(sizes, b.Len())
	}
	if got := fmt.Sprint(sizes); got != "[1024 1024 452]" {
		t.Errorf("batches of %s rows", got)
	}
}

// A leaf's Filter is applied above it, except the part that its source has applied.
func TestBuildLeafFilter(t *testing.T) {
	a := testplan.Relation("x:bigint")
	a.Filter = testplan.Call(types.Boolean, "<", testplan.Column(a, "x"), testplan.Literal(types.Int(5)))
	testplan.Expect(t, play.Run(t, a, operators.Options{}, "3\n7\nclose"), "3\nclose")
	all := func(*plan.Acquire) plan.Expr { return nil }
	testplan.Expect(t, play.Run(t, a, operators.Options{Residual: all}, "3\n7\nclose"), "3\n7\nclose")
	some := func(n *plan.Acquire) plan.Expr {
		return testplan.Call(types.Boolean, "<", testplan.Column(n, "x"), testplan.Literal(types.Int(7)))
	}
	testplan.Expect(t, play.Run(t, a, operators.Options{Residual: some}, "3\n6\n7\nclose"), "3\n6\nclose")
}

// A sub-plan that is used twice is executed once: it has one leaf, whose rows go both ways.
// It stops when both consumers are drained. A loss below it is counted once, and both
// receive the signal.
func TestBuildSharesSubplans(t *testing.T) {
	shared := testplan.Positive(testplan.Relation("x:bigint"))
	one, three := &plan.Limit{N: 1, Input: shared}, &plan.Limit{N: 3, Input: shared}
	for _, n := range []plan.Node{testplan.UnionOf(one, three), testplan.UnionOf(three, one)} {
		testplan.Expect(t, play.Run(t, n, operators.Options{}, `
			-5
			1
			--
			2
			wm 3
			gap full 1
			--
			3
			--
			4
			close`), `
			1
			1
			2
			wm 3
			gap full 1
			gap full 0
			3
			drain 0
			close`)
	}

	a := testplan.Relation("t:bigint") // shared as a leaf, and by the same node
	testplan.Expect(t, play.Run(t, testplan.UnionOf(a, a), operators.Options{}, "1\nwm 1\n2\nclose"), "1\n1\nwm 1\n2\n2\nclose")
}

// Leaves are in the order of the plan, whatever the order of building.
func TestBuildLeafOrder(t *testing.T) {
	a, b, c := testplan.Relation("x:bigint"), testplan.Relation("x:bigint"), testplan.Relation("x:bigint")
	shared := testplan.UnionOf(a, b)
	g, err := graph.Build(testplan.UnionOf(&plan.Limit{N: 1, Input: shared}, c, shared), &testplan.Recorder{}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(g.Leaves) != 3 || g.Leaves[0].Acquire != a || g.Leaves[1].Acquire != b || g.Leaves[2].Acquire != c {
		t.Errorf("leaves %v", g.Leaves)
	}
}

// Each node counts its input and output; its time excludes that of its consumers.
func TestStats(t *testing.T) {
	a := testplan.Relation("x:bigint")
	a.Filter = testplan.Call(types.Boolean, "<", testplan.Column(a, "x"), testplan.Literal(types.Int(5)))
	shared := testplan.Positive(a)
	root := testplan.UnionOf(&plan.Limit{N: 1, Input: shared}, shared)
	slow := &sleeper{}
	g, err := graph.Build(root, slow, &operators.Options{Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	src := play.Source{Leaf: g.Leaves[0], Rec: &slow.Recorder, Types: a.Out.Types(), Pool: testplan.NewPool(a)}
	began := time.Now()
	for _, line := range []string{"1", "2", "--", "-1", "9", "3", "close"} {
		if err := src.Do(line); err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	var got string
	for _, s := range g.Stats {
		got += fmt.Sprintf("%s: %d/%d -> %d/%d\n", s.Node.Describe(),
			s.RowsIn.Load(), s.BatchesIn.Load(), s.RowsOut.Load(), s.BatchesOut.Load())
	}
	testplan.Expect(t, got, `
		union all: 4/3 -> 4/3
		limit 1: 2/1 -> 1/1
		filter x > 0: 4/2 -> 3/2
		acquire test [x] where x < 5: 5/2 -> 4/2`)
	var total time.Duration
	for _, s := range g.Stats {
		if d := s.Nanos.Load(); d < 0 {
			t.Errorf("%s took %d ns", s.Node.Describe(), d)
		}
		total += time.Duration(s.Nanos.Load())
	}
	if total+slow.slept > took {
		t.Errorf("the nodes took %v of %v, with the %v of their consumer", total, took, slow.slept)
	}
}

// A source without a caller has its time too.
func TestStatsOfValues(t *testing.T) {
	slow := &sleeper{}
	g, err := graph.Build(constants([]types.Value{types.Int(1)}), slow, &operators.Options{Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := g.StartValues(t.Context()); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	s := g.Stats[0]
	if d := time.Duration(s.Nanos.Load()); d <= 0 || d+slow.slept > took || s.RowsOut.Load() != 1 {
		t.Errorf("%d rows in %v", s.RowsOut.Load(), d)
	}
}

// countPerWindow is SELECT count(*) GROUP BY window_start, window_end, by....
func countPerWindow(in plan.Node, by ...string) *plan.Aggregate {
	a := &plan.Aggregate{Input: in, Windowed: true, WindowEnd: 1, Out: types.Schema{Time: -1},
		Aggs: []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}}}
	for _, name := range append([]string{"window_start", "window_end"}, by...) {
		c := testplan.Column(in, name)
		a.Keys = append(a.Keys, c)
		a.Out.Fields = append(a.Out.Fields, types.Field{Name: name, Type: c.T})
	}
	a.Out.Fields = append(a.Out.Fields, types.Field{Name: "count", Type: types.Bigint})
	return a
}

// ORDER BY and LIMIT act on each window. The aggregate over sessions emits the ended ones
// although another one continues.
func TestResultsOfWindows(t *testing.T) {
	in := testplan.Relation("t:timestamp p:varchar")
	for _, c := range []struct {
		name string
		plan plan.Node
		want string
	}{
		{"rows", testplan.OrderBy(testplan.Window(in, testplan.Tumbling(10), true), "p"), `
			1 a 0 10
			8 a 0 10
			2 b 0 10
			3 b 0 10
			9 c 0 10
			flush
			11 a 10 20
			15 a 10 20
			flush
			wm 20
			20 a 20 30
			flush
			close`},
		{"tumble", &plan.Limit{N: 2, PerFlush: true, Input: testplan.OrderBy(countPerWindow(testplan.Window(in, testplan.Tumbling(10), false), "p"), "count desc", "p")}, `
			0 10 a 2
			0 10 b 2
			flush
			10 20 a 2
			flush
			wm 20
			20 30 a 1
			flush
			close`},
		{"session", countPerWindow(testplan.SessionOf(in, 10, false, "p"), "p"), `
			2 13 b 2
			flush
			9 19 c 1
			flush
			wm 20
			1 30 a 5
			flush
			close`},
	} {
		t.Run(c.name, func(t *testing.T) {
			testplan.Expect(t, play.Run(t, c.plan, operators.Options{}, `
				2 b
				1 a
				9 c
				3 b
				8 a
				--
				11 a
				15 a
				wm 20
				20 a
				close`), c.want)
		})
	}
}

// sleeper is a slow consumer.
type sleeper struct {
	testplan.Recorder
	slept time.Duration
}

func (s *sleeper) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	start := time.Now()
	time.Sleep(20 * time.Millisecond) // it is a slow consumer
	s.slept += time.Since(start)
	return operators.More, nil
}
