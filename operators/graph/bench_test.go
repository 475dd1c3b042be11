package graph_test

import (
	"io"
	"math/rand/v2"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// plans are the benchmarked nodes.
var plans = []struct {
	name string
	plan func(in plan.Node) plan.Node
}{
	{"filter", testplan.Positive},
	{"project", testplan.Projection},
	{"tumble", func(in plan.Node) plan.Node { return testplan.Window(in, testplan.Tumbling(1e6), false) }},
	{"hop5", func(in plan.Node) plan.Node { return testplan.Window(in, testplan.Hopping(1e6, 5e6), false) }},
	{"distinct", func(in plan.Node) plan.Node {
		return &plan.Distinct{Input: &plan.Project{Input: in, Exprs: []plan.Expr{testplan.Column(in, "x"), testplan.Column(in, "s")},
			Out: types.Schema{Time: -1, Fields: in.Schema().Fields[1:]}}}
	}},
	{"top10", func(in plan.Node) plan.Node { s := testplan.OrderBy(in, "x desc"); s.Limit = 10; return s }},
}

// BenchmarkOperators measures rows per second of operators that forward rows.
func BenchmarkOperators(b *testing.B) {
	for _, p := range plans {
		b.Run(p.name, func(b *testing.B) {
			in := testplan.Relation(testplan.EventColumns)
			g, err := graph.Build(p.plan(in), &testplan.Nothing{}, &operators.Options{})
			if err != nil {
				b.Fatal(err)
			}
			e := testplan.Events(testplan.NewPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Leaves[0].Op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
			}
			testplan.Rate(b, batch.MaxRows)
		})
	}
}

// BenchmarkSort sorts 100 batches by a number, and by a text.
func BenchmarkSort(b *testing.B) {
	for _, key := range []string{"x", "s"} {
		b.Run(key, func(b *testing.B) {
			in := testplan.Relation(testplan.EventColumns)
			p, rng := testplan.NewPool(in), rand.New(rand.NewPCG(1, 2))
			var es []*batch.Batch
			for i := range 100 {
				es = append(es, testplan.Events(p, rng, int64(i)))
			}
			g, err := graph.Build(testplan.OrderBy(in, key), &testplan.Nothing{}, &operators.Options{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for _, e := range es {
					if _, err := g.Leaves[0].Op.Push(b.Context(), 0, e); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := g.Leaves[0].Op.Signal(b.Context(), 0, operators.Signal{Kind: operators.Flush}); err != nil {
					b.Fatal(err)
				}
			}
			testplan.Rate(b, len(es)*batch.MaxRows)
		})
	}
}

// BenchmarkUnion merges two streams: their rows alternate, or one stream is idle and sends
// only watermarks.
func BenchmarkUnion(b *testing.B) {
	for _, c := range []struct {
		name string
		both bool
	}{{"alternating", true}, {"idle", false}} {
		b.Run(c.name, func(b *testing.B) {
			in := testplan.Relation(testplan.EventColumns)
			g, err := graph.Build(testplan.UnionOf(in, testplan.Relation(testplan.EventColumns)), &testplan.Nothing{}, &operators.Options{})
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			es := []*batch.Batch{testplan.Events(testplan.NewPool(in), rng, 0), testplan.Events(testplan.NewPool(in), rng, 500)}
			rows, now := 0, int64(0)
			b.ReportAllocs()
			for b.Loop() {
				for i, l := range g.Leaves {
					if i == 0 || c.both {
						l.Op.Push(b.Context(), l.Port, es[i])
						rows += batch.MaxRows
					}
				}
				now += batch.MaxRows * 1000
				for _, l := range g.Leaves {
					l.Op.Signal(b.Context(), l.Port, operators.Signal{Kind: operators.Watermark, Time: now})
				}
				for _, e := range es { // no reference is left
					for r := range e.Cols[0].Int {
						e.Cols[0].Int[r] += batch.MaxRows * 1000
					}
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkHeld measures rows per second of windows that keep rows until the watermark
// closes them: 100 partitions of about ten rows a session, and windows of about a thousand
// rows.
func BenchmarkHeld(b *testing.B) {
	for _, c := range []struct {
		name string
		plan func(in plan.Node) plan.Node
	}{
		{"session", func(in plan.Node) plan.Node { return testplan.SessionOf(in, 240_000, false, "s") }},
		{"tumble", func(in plan.Node) plan.Node { return testplan.Window(in, testplan.Tumbling(1e6), true) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := testplan.Relation(testplan.EventColumns)
			g, err := graph.Build(c.plan(in), &testplan.Nothing{}, &operators.Options{})
			if err != nil {
				b.Fatal(err)
			}
			op := g.Leaves[0].Op
			e := testplan.Events(testplan.NewPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			times := e.Cols[0].Int
			b.ReportAllocs()
			for b.Loop() {
				if _, err := op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
				if _, err := op.Signal(b.Context(), 0, operators.Signal{Kind: operators.Watermark, Time: times[len(times)-1]}); err != nil {
					b.Fatal(err)
				}
				for i := range times { // no reference is left
					times[i] += batch.MaxRows * 1000
				}
			}
			testplan.Rate(b, batch.MaxRows)
		})
	}
}

// BenchmarkInsert measures rows per second of both formats.
func BenchmarkInsert(b *testing.B) {
	for _, path := range []string{"x.csv", "x.jsonl"} {
		b.Run(path[2:], func(b *testing.B) {
			in := testplan.Relation(testplan.EventColumns)
			discard := func(string) (io.WriteCloser, error) { return discarded{io.Discard}, nil }
			g, err := graph.Build(&plan.Insert{Input: in, Path: path}, &testplan.Nothing{}, &operators.Options{OpenFile: discard})
			if err != nil {
				b.Fatal(err)
			}
			e := testplan.Events(testplan.NewPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Leaves[0].Op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
			}
			testplan.Rate(b, batch.MaxRows)
		})
	}
}

type discarded struct{ io.Writer }

func (discarded) Close() error { return nil }

// A steady stream allocates nothing, neither per row nor per batch.
func TestSteadyStreamAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets under the race detector")
	}
	for _, p := range plans {
		t.Run(p.name, func(t *testing.T) {
			in := testplan.Relation(testplan.EventColumns)
			g, err := graph.Build(p.plan(in), &testplan.Nothing{}, &operators.Options{Stats: true})
			if err != nil {
				t.Fatal(err)
			}
			e := testplan.Events(testplan.NewPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			ctx := t.Context()
			if n := testing.AllocsPerRun(100, func() {
				if _, err := g.Leaves[0].Op.Push(ctx, 0, e); err != nil {
					t.Fatal(err)
				}
			}); n >= 1 {
				t.Errorf("%v allocations per batch", n)
			}
		})
	}
}
