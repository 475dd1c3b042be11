package operators

import (
	"context"
	"io"
	"math/rand/v2"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// nothing is a sink that only counts.
type nothing struct{ rows int }

func (n *nothing) Push(_ context.Context, _ int, b *batch.Batch) (Status, error) {
	n.rows += b.Len()
	return More, nil
}
func (n *nothing) Signal(context.Context, int, Signal) (Status, error) { return More, nil }
func (n *nothing) Close(context.Context, int) error                    { return nil }

// events is a full batch of a stream of function calls, a microsecond apart:
// t, x (random), s (one of 100 names).
func events(p *batch.Pool, rng *rand.Rand, from int64) *batch.Batch {
	b := p.Get()
	for i := range batch.MaxRows {
		b.AppendRow(types.Time(from+int64(i)*1000), types.Int(rng.Int64N(1000)-500), types.Str(names[rng.IntN(len(names))]))
	}
	return b
}

var names = func() (ns []string) {
	for i := range 100 {
		ns = append(ns, "function_"+string(rune('a'+i/10))+string(rune('a'+i%10)))
	}
	return ns
}()

const eventColumns = "t:timestamp x:bigint s:varchar"

// plans are the nodes whose speed counts.
var plans = []struct {
	name string
	plan func(in plan.Node) plan.Node
}{
	{"filter", positive},
	{"project", projection1},
	{"tumble", func(in plan.Node) plan.Node { return window(in, tumbling(1e6), false) }},
	{"hop5", func(in plan.Node) plan.Node { return window(in, hopping(1e6, 5e6), false) }},
	{"distinct", func(in plan.Node) plan.Node {
		return &plan.Distinct{Input: &plan.Project{Input: in, Exprs: []plan.Expr{column(in, "x"), column(in, "s")},
			Out: types.Schema{Time: -1, Fields: in.Schema().Fields[1:]}}}
	}},
	{"top10", func(in plan.Node) plan.Node { s := orderBy(in, "x desc"); s.Limit = 10; return s }},
}

// BenchmarkOperators gives rows per second of operators that pass rows on.
func BenchmarkOperators(b *testing.B) {
	for _, p := range plans {
		b.Run(p.name, func(b *testing.B) {
			in := relation(eventColumns)
			g, err := Build(p.plan(in), &nothing{}, &Options{})
			if err != nil {
				b.Fatal(err)
			}
			e := events(newPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Leaves[0].Op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, batch.MaxRows)
		})
	}
}

func rate(b *testing.B, rows int) {
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkSort sorts 100 batches by a number, and by a text.
func BenchmarkSort(b *testing.B) {
	for _, key := range []string{"x", "s"} {
		b.Run(key, func(b *testing.B) {
			in := relation(eventColumns)
			p, rng := newPool(in), rand.New(rand.NewPCG(1, 2))
			var es []*batch.Batch
			for i := range 100 {
				es = append(es, events(p, rng, int64(i)))
			}
			g, err := Build(orderBy(in, key), &nothing{}, &Options{})
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				for _, e := range es {
					if _, err := g.Leaves[0].Op.Push(b.Context(), 0, e); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := g.Leaves[0].Op.Signal(b.Context(), 0, Signal{Kind: Flush}); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, len(es)*batch.MaxRows)
		})
	}
}

// BenchmarkUnion merges two streams: their rows alternate, or one stream is
// idle and only says so.
func BenchmarkUnion(b *testing.B) {
	for _, c := range []struct {
		name string
		both bool
	}{{"alternating", true}, {"idle", false}} {
		b.Run(c.name, func(b *testing.B) {
			in := relation(eventColumns)
			g, err := Build(unionOf(in, relation(eventColumns)), &nothing{}, &Options{})
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			es := []*batch.Batch{events(newPool(in), rng, 0), events(newPool(in), rng, 500)}
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
					l.Op.Signal(b.Context(), l.Port, Signal{Kind: Watermark, Time: now})
				}
				for _, e := range es { // nobody holds them now
					for r := range e.Cols[0].Int {
						e.Cols[0].Int[r] += batch.MaxRows * 1000
					}
				}
			}
			b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

// BenchmarkHeld gives rows per second of windows that keep rows until the
// watermark closes them: 100 partitions of about ten rows a session, and
// windows of about a thousand rows.
func BenchmarkHeld(b *testing.B) {
	for _, c := range []struct {
		name string
		plan func(in plan.Node) plan.Node
	}{
		{"session", func(in plan.Node) plan.Node { return sessionOf(in, 240_000, false, "s") }},
		{"tumble", func(in plan.Node) plan.Node { return window(in, tumbling(1e6), true) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			in := relation(eventColumns)
			g, err := Build(c.plan(in), &nothing{}, &Options{})
			if err != nil {
				b.Fatal(err)
			}
			op := g.Leaves[0].Op
			e := events(newPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			times := e.Cols[0].Int
			b.ReportAllocs()
			for b.Loop() {
				if _, err := op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
				if _, err := op.Signal(b.Context(), 0, Signal{Kind: Watermark, Time: times[len(times)-1]}); err != nil {
					b.Fatal(err)
				}
				for i := range times { // nobody holds them now
					times[i] += batch.MaxRows * 1000
				}
			}
			rate(b, batch.MaxRows)
		})
	}
}

// BenchmarkInsert gives rows per second of both formats.
func BenchmarkInsert(b *testing.B) {
	for _, path := range []string{"x.csv", "x.jsonl"} {
		b.Run(path[2:], func(b *testing.B) {
			in := relation(eventColumns)
			discard := func(string) (io.WriteCloser, error) { return discarded{io.Discard}, nil }
			g, err := Build(&plan.Insert{Input: in, Path: path}, &nothing{}, &Options{OpenFile: discard})
			if err != nil {
				b.Fatal(err)
			}
			e := events(newPool(in), rand.New(rand.NewPCG(1, 2)), 0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := g.Leaves[0].Op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, batch.MaxRows)
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
			in := relation(eventColumns)
			g, err := Build(p.plan(in), &nothing{}, &Options{Stats: true})
			if err != nil {
				t.Fatal(err)
			}
			e := events(newPool(in), rand.New(rand.NewPCG(1, 2)), 0)
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
