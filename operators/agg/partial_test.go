package agg_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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

// staged adds the first stage of n to the acquisition below n. Its keys are
// columns of the acquisition and possibly a window's borders.
func staged(t testing.TB, n *plan.Aggregate, pane int64) *plan.Aggregate {
	t.Helper()
	var keys []plan.Expr
	start, end := n.Borders()
	for i, k := range n.Keys {
		if i != start && i != end {
			keys = append(keys, k)
		}
	}
	in, w := n.Input, (*plan.Window)(nil)
	if n.Windowed {
		w = in.(*plan.Window)
		in = w.Input
	}
	leaf := *in.(*plan.Acquire)
	var ok bool
	if leaf.Partial, ok = plan.NewPartial(keys, n.Aggs, time.Duration(pane)); !ok {
		t.Fatalf("%s has no states", n.Describe())
	}
	in = &leaf
	if w != nil {
		in = w.WithInputs([]plan.Node{in})
	}
	return n.WithInputs([]plan.Node{in}).(*plan.Aggregate)
}

// Partial rows and rows of one group are merged, whatever dictionary their strings
// have and whichever arrive first. A row without values creates the group and does
// not change a result.
func TestPartialRows(t *testing.T) {
	n := staged(t, testplan.GroupBy(testplan.Relation("t:timestamp s:varchar x:bigint"), "s", "count(*); sum(x); avg(x); min(x); max(x)"), 0)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		1 b 5
		+ 0 a 3  30 0 3  30 0 3  9 3  11 3
		+ 0 b 2  -7 -1 2  -7 -1 2  -4 2  -3 2
		+ 0 null 1  8 0 1  8 0 1  8 1  8 1
		+ 0 c 6  1 1 0  1 1 0  99 0  99 0
		2 a null
		3 null 2
		wm 3
		close`), `
		wm 3
		b 3 -2 -0.6666666666666666 -4 5
		a 4 30 10 9 11
		null 2 10 5 2 8
		c 6 null null null null
		flush
		close`)
}

// Without keys the one group exists from the start.
func TestPartialRowsWithoutKeys(t *testing.T) {
	n := staged(t, testplan.GroupBy(testplan.Relation("t:timestamp x:bigint"), "", "count(x); max(x)"), 0)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, "close"), "0 null\nflush\nclose")
	testplan.Expect(t, play.Run(t, n, operators.Options{}, "+ 0 7 12 7\n+ 0 1 13 1\n9 5\nclose"), "9 13\nflush\nclose")
}

// EMIT EVERY emits the totals so far, even if only partial rows have arrived; so
// does a preview. If nothing has arrived since, nothing is emitted at the end.
func TestPartialRowsEvery(t *testing.T) {
	n := staged(t, testplan.Every(testplan.GroupBy(testplan.Relation("t:timestamp s:varchar"), "s", "count(*)"), plan.Every), 0)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		+ 0 a 3
		tick 10
		1 a
		+ 0 b 1
		preview 15
		+ 0 a 1
		tick 20
		close`), `
		a 3
		flush
		tick 10
		a 4
		b 1
		flush preview
		preview 15
		a 5
		b 1
		flush
		tick 20
		close`)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, "tick 10\n+ 0 a 3\nclose"), "flush\ntick 10\na 3\nflush\nclose")
}

// A pane lies in the window of its rows.
func TestPartialRowsTumble(t *testing.T) {
	w := testplan.Window(testplan.Relation("t:timestamp s:varchar"), testplan.Tumbling(10), false)
	n := staged(t, testplan.GroupBy(w, "window_start s window_end", "count(*)"), 10)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		+ 0 a 3
		5 a
		+ 10 a 4
		15 b
		wm 10
		+ 10 a 1
		wm 20
		close`), `
		0 a 10 4
		flush
		wm 10
		10 a 20 5
		10 b 20 1
		flush
		wm 20
		close`)
}

// A pane of HOP lies in several windows, which need not have their starts as a
// key.
func TestPartialRowsHop(t *testing.T) {
	w := testplan.Window(testplan.Relation("t:timestamp x:bigint"), testplan.Hopping(5, 10), false)
	n := staged(t, testplan.GroupBy(w, "window_end", "count(*); sum(x)"), 5)
	testplan.Expect(t, play.Run(t, n, operators.Options{}, `
		+ 0 3  30 0 3
		+ 5 1  5 0 1
		7 100
		close`), `
		5 3 30
		flush
		10 5 135
		flush
		15 2 105
		flush
		close`)
}

// Rows for closed windows are late, counted in events: as many as COUNT(*) or
// RATE(*) have, and without them at least as many as any aggregate has values.
func TestPartialRowsLate(t *testing.T) {
	in := testplan.Relation("t:timestamp x:bigint")
	late := func(aggs, row string) string {
		w := testplan.Window(in, testplan.Tumbling(10), false)
		return play.Run(t, staged(t, testplan.GroupBy(w, "window_end", aggs), 10), operators.Options{}, "wm 10\n"+row+"\nclose")
	}
	testplan.Expect(t, late("sum(x); count(*); max(x)", "+ 0  5 0 2  7  5 2"), "wm 10\ngap late 7\nclose")
	testplan.Expect(t, late("max(x); rate(*)", "+ 0  5 2  7"), "wm 10\ngap late 7\nclose")
	testplan.Expect(t, late("sum(x); min(x)", "+ 0  5 0 2  5 2"), "wm 10\ngap late 2\nclose")
	testplan.Expect(t, late("min(x)", "+ 0  5 0"), "wm 10\ngap late 1\nclose")
	// The row of a bucket does not count as an event of its group again.
	testplan.Expect(t, late("count(*); histogram(x)", "+ 0  7  3 6\n+ 0  0  4 1"), "wm 10\ngap late 7\nclose")
}

// Rows that arrive after any of their HOP windows has closed are late, once: rows
// and the events of partial rows.
func TestLateInHopOnce(t *testing.T) {
	w := testplan.Window(testplan.Relation("t:timestamp x:bigint"), testplan.Hopping(5, 20), false)
	testplan.Expect(t, play.Run(t, staged(t, testplan.GroupBy(w, "window_end", "count(*)"), 5), operators.Options{}, `
		wm 20
		1 0
		11 0
		21 0
		+ 5 7
		+ 20 2
		close`), `
		wm 20
		gap late 2
		gap late 7
		25 11
		flush
		30 4
		flush
		35 3
		flush
		40 3
		flush
		close`)
}

// Groups over the memory limit are lost, counted in events.
func TestPartialRowsGroupsFull(t *testing.T) {
	n := staged(t, testplan.GroupBy(testplan.Relation("t:timestamp s:varchar"), "s", "count(*)"), 0)
	testplan.Expect(t, play.Run(t, n, operators.Options{MemoryLimit: 2 * 48 * 3}, `
		1 a
		+ 0 b 2
		+ 0 c 9
		+ 0 a 9
		2 c
		close`), `
		gap groups full 9
		gap groups full 1
		a 10
		b 2
		flush
		close`)
}

// Nothing is rounded or truncated: sums and squares carry beyond 64 bits, and a
// sum that fits in the end is returned.
func TestPartialRowsCarry(t *testing.T) {
	const most, least = math.MaxInt64, math.MinInt64
	in := testplan.Relation("t:timestamp x:bigint")
	sums := staged(t, testplan.GroupBy(in, "", "sum(x); avg(x)"), 0)
	// 3·most = 2^65 + (2^63 - 3): lo and hi of it, then of 3·least twice.
	testplan.Expect(t, play.Run(t, sums, operators.Options{}, fmt.Sprintf(`
		+ 0  %d 1 3  %[1]d 1 3
		+ 0  %[2]d -2 3  %[2]d -2 3
		1 4
		close`, int64(most-2), int64(least))), `
		1 0.14285714285714285
		flush
		close`)
	spread := staged(t, testplan.GroupBy(in, "", "variance(x); stddev(x)"), 0)
	// least and most, each four times: Σx = -4, Σx² = 4·(2^126 + (2^63-1)²) =
	// 2^129 - 2^66 + 4, once as one row and once as two that carry.
	rows := strings.Repeat(fmt.Sprintf("1 %d\n1 %d\n", int64(least), int64(most)), 4)
	want := play.Run(t, spread, operators.Options{}, rows+"close")
	whole := "+ 0  -4 -1 8 4 -4 1  -4 -1 8 4 -4 1\nclose"
	halves := strings.Repeat("+ 0  -2 -1 4 2 -2 0  -2 -1 4 2 -2 0\n", 2) + "close"
	for _, script := range []string{whole, halves} {
		testplan.Expect(t, play.Run(t, spread, operators.Options{}, script), want)
	}
}

// Each value of FIRST and LAST has the time of its event; of equal times the
// smallest and the largest count, as with rows.
func TestPartialRowsFirstLast(t *testing.T) {
	n := staged(t, testplan.GroupBy(testplan.Relation("t:timestamp x:bigint"), "", "first(x); last(x)"), 0)
	for script, want := range map[string]string{
		"+ 0  5 50 1  9 90 1\n7 70":       "50 90",
		"4 40\n10 1\n+ 0  5 50 1  9 90 1": "40 1",
		"5 1\n+ 0  5 50 1  5 90 1":        "1 90",
		"+ 0  5 50 1  5 90 1\n5 1":        "1 90",
		"+ 0  0 -9 0  99 -9 0\n5 1":       "1 1",
	} {
		testplan.Expect(t, play.Run(t, n, operators.Options{}, script+"\nclose"), want+"\nflush\nclose")
	}
}

// Samples of the kernel add up: values, and buckets with their smallest and largest
// values. The bucket from 992.5 to 1012.5 represents 1002.4, and so does its mirror.
func TestPartialRowsSamples(t *testing.T) {
	in := testplan.Relation("t:timestamp x:bigint")
	n := staged(t, testplan.GroupBy(in, "", "median(x); quantile(x, 1.0); max(x)"), 0)
	for script, want := range map[string]string{
		"1 100\n+ 0  100 100 2 null  100 100 1 null  100 3\n+ 0  8 8 9 null  0 0 0 null  0 0":                  "8 100 100",
		"1 1005\n+ 0  1006 1010 1200 null  7 7 1 null  1010 1":                                                 "1005 1005 1010",
		"+ 0  1000 1001 1200 null  1005 1010 2000 null  1010 1":                                                "1001 1010 1010",
		"+ 0  1000 1001 400 null  1005 1010 2000 null  1010 1\n+ 0  1002 1010 600 null  1012 1012 9 null  0 0": "1002.428 1012 1010",
		"+ 0  -1001 -1000 1200 null  -1010 -1005 2000 null  1010 1":                                            "-1001 -1005 1010",
	} {
		got := play.Run(t, n, operators.Options{}, script+"\nclose")
		var median, most, largest float64
		if _, err := fmt.Sscan(got, &median, &most, &largest); err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprint(math.Round(median*1e4)/1e4, most, largest); row != want {
			t.Errorf("%s\ngives %s, not %s", script, row, want)
		}
	}
}

// A bucket's smallest and largest value are of one bucket, and two at least.
func TestPartialRowsNoSamples(t *testing.T) {
	n := staged(t, testplan.GroupBy(testplan.Relation("t:timestamp x:bigint"), "", "median(x)"), 0)
	g, err := graph.Build(n, &testplan.Nothing{}, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	leaf := g.Leaves[0]
	for _, row := range [][3]int64{{8, 100, 2}, {1001, 1000, 2}, {1000, 1001, 1}, {8, 8, -1}} {
		b := batch.New(leaf.Acquire.Partial.Out.Types())
		b.AppendRow(types.Time(0), types.Int(row[0]), types.Int(row[1]), types.Int(row[2]), types.NullOf(types.Bytes))
		if _, err := leaf.Partial.Push(t.Context(), 0, b); err == nil {
			t.Errorf("%v are samples", row)
		}
	}
}

// Partial rows of what the aggregate does not compute are refused when the
// plan is built.
func TestPartialRefusals(t *testing.T) {
	in := testplan.Relation("t:timestamp s:varchar x:bigint")
	count := staged(t, testplan.GroupBy(in, "s", "count(*)"), 0).Input.(*plan.Acquire)
	for name, n := range map[string]plan.Node{
		"other aggregates": testplan.GroupBy(count, "s", "sum(x)"),
		"other keys":       testplan.GroupBy(count, "", "count(*)"),
		"not above":        &plan.Filter{Input: count, Cond: testplan.Literal(types.Bool(true))},
		"two consumers":    &plan.Union{Ins: []plan.Node{testplan.GroupBy(count, "s", "count(*)"), testplan.GroupBy(count, "s", "count(*)")}},
	} {
		if _, err := graph.Build(n, &testplan.Nothing{}, &operators.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Statistics count partial rows as rows of each node that they pass.
func TestPartialRowsStats(t *testing.T) {
	w := testplan.Window(testplan.Relation("t:timestamp s:varchar"), testplan.Hopping(5, 10), false)
	n := staged(t, testplan.GroupBy(w, "s window_end", "count(*)"), 5)
	g, err := graph.Build(n, &testplan.Nothing{}, &operators.Options{Stats: true})
	if err != nil {
		t.Fatal(err)
	}
	leaf := g.Leaves[0]
	partial, raw := batch.New(leaf.Acquire.Partial.Out.Types()), batch.New(leaf.Acquire.Out.Types())
	for i := range int64(3) {
		partial.AppendRow(types.Time(0), types.Str(testplan.Names[i]), types.Int(10))
	}
	raw.AppendRow(types.Time(1), types.Str("a"))
	for op, b := range map[operators.Operator]*batch.Batch{leaf.Partial: partial, leaf.Op: raw} {
		if _, err := op.Push(t.Context(), 0, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := leaf.Op.Close(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, st := range g.Stats {
		word, _, _ := strings.Cut(st.Node.Describe(), " ")
		got += fmt.Sprintf("%s %d %d\n", word, st.RowsIn.Load(), st.RowsOut.Load())
		if st.Nanos.Load() <= 0 {
			t.Errorf("%s took no time", word)
		}
	}
	testplan.Expect(t, got, "aggregate 8 8\nwindow 4 8\nacquire 4 4")
}

// BenchmarkMerge merges batches of groups, with each kind of state.
func BenchmarkMerge(b *testing.B) {
	for _, c := range []struct{ keys, aggs string }{
		{"s", "count(*)"}, {"s", "sum(x)"}, {"s", "stddev(x)"}, {"s", "min(x)"}, {"s", "last(x)"}, {"s", "quantile(x, 0.99)"},
		{"x", "count(*); sum(x); max(x)"}, {"s x", "count(*); sum(x); max(x)"},
	} {
		b.Run(c.aggs+" by "+c.keys, func(b *testing.B) {
			n := staged(b, testplan.GroupBy(testplan.Relation("t:timestamp s:varchar x:bigint"), c.keys, c.aggs), 0)
			g, err := graph.Build(n, &testplan.Nothing{}, &operators.Options{})
			if err != nil {
				b.Fatal(err)
			}
			leaf := g.Leaves[0]
			e := batch.New(leaf.Acquire.Partial.Out.Types())
			rng := rand.New(rand.NewPCG(1, 2))
			for range batch.MaxRows {
				row := make([]types.Value, len(e.Cols))
				for i, c := range e.Cols {
					row[i] = types.Value{Type: c.Type, I: rng.Int64N(1000), S: testplan.Names[rng.IntN(len(testplan.Names))]}
					if c.Type == types.Bytes { // samples of the kernel
						row[i], row[i-2] = types.NullOf(types.Bytes), row[i-3]
					}
				}
				e.AppendRow(row...)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := leaf.Partial.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
			}
			testplan.Rate(b, batch.MaxRows)
		})
	}
}
