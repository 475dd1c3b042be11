package export

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"golang.org/x/sys/unix"

	"endoscope/operators"
	"endoscope/operators/agg"
	"endoscope/operators/batch"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/flow"
	"endoscope/server/query"
)

// calls is a plan with the label name and the counter calls.
func callsPlan(limit int, emit plan.Emit) *planner.Export {
	return &planner.Export{
		Name: "e", Key: "e", Stack: -1, Options: planner.ExportOptions{Interval: time.Second, Series: limit},
		Query:   &plan.Query{Root: &plan.Aggregate{Input: &plan.Acquire{Stream: "series"}, Emit: emit}},
		Labels:  []planner.Label{{Name: "name", Column: 0}},
		Metrics: []planner.Metric{{Name: "e_calls", Kind: planner.Counter, Column: 1, Unit: planner.Unit{Code: "1", Per: 1}}},
	}
}

var every = plan.Emit{Mode: plan.Every, Every: time.Second}

// feed pushes rows of name and count, and then the end of the result.
func feed(t testing.TB, f *figures, rows map[string]int64, names ...string) {
	b := batch.New([]types.Type{types.Varchar, types.Bigint})
	defer b.Release()
	for _, n := range names {
		b.AppendRow(types.Str(n), types.Int(rows[n]))
	}
	if _, err := f.Push(context.Background(), 0, b); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Signal(context.Background(), 0, operators.Signal{Kind: operators.Flush}); err != nil {
		t.Fatal(err)
	}
}

func shown(f *figures) (names []string) {
	for _, p := range f.Snapshot().Points {
		names = append(names, fmt.Sprintf("%s=%g", p.Labels[0], p.Values[0]))
	}
	slices.Sort(names)
	return names
}

// Beyond the limit the series that have not changed for the longest time are left out, and
// come back with all that they have counted.
func TestLimitLeavesOutStaleSeries(t *testing.T) {
	tally := flow.NewTally()
	f := newFigures(callsPlan(2, every), tally)
	all := []string{"a", "b", "c"}
	for i, step := range []struct {
		rows map[string]int64
		want string
		left uint64
	}{
		{map[string]int64{"a": 1, "b": 1, "c": 1}, "[a=1 b=1]", 1},
		{map[string]int64{"a": 1, "b": 1, "c": 2}, "[a=1 c=2]", 2},
		{map[string]int64{"a": 1, "b": 1, "c": 2}, "[a=1 c=2]", 2},
		{map[string]int64{"a": 1, "b": 7, "c": 3}, "[b=7 c=3]", 3},
	} {
		feed(t, f, step.rows, all...)
		if got := fmt.Sprint(shown(f)); got != step.want || f.left.Load() != step.left {
			t.Errorf("step %d: %s, %d left out; want %s, %d", i, got, f.left.Load(), step.want, step.left)
		}
	}
	feed(t, f, map[string]int64{"a": 1, "b": 6, "c": 3}, all...)
	if l := tally.Losses(); len(l) != 1 || l[0].N != 1 {
		t.Errorf("a counter that goes down: %v", l)
	}
}

// Series that the query no longer has, such as those of windows, are forgotten.
func TestFiguresForgetSeries(t *testing.T) {
	f := newFigures(callsPlan(10, every), flow.NewTally())
	for i := range 5000 {
		name := fmt.Sprint(i)
		feed(t, f, map[string]int64{name: 1}, name)
	}
	if len(f.known) > 1100 {
		t.Errorf("%d series are known", len(f.known))
	}
}

// Samples are published at intervals, live for a while, and are bounded.
func TestSamplesExpire(t *testing.T) {
	p := callsPlan(2, plan.Emit{})
	p.Metrics[0].Kind = planner.Gauge
	tally := flow.NewTally()
	f := newFigures(p, tally)
	now := time.Unix(1000, 0)
	f.now = func() time.Time { return now }
	push := func(names ...string) {
		b := batch.New([]types.Type{types.Varchar, types.Bigint})
		defer b.Release()
		for _, n := range names {
			b.AppendRow(types.Str(n), types.Int(1))
		}
		if _, err := f.Push(context.Background(), 0, b); err != nil {
			t.Fatal(err)
		}
	}
	push("a")
	for range 6 {
		now = now.Add(time.Second)
		push("b")
	}
	if got := fmt.Sprint(shown(f)); got != "[b=1]" {
		t.Errorf("%s", got)
	}
	for i := range 20 {
		push(fmt.Sprint(i))
	}
	if now = now.Add(time.Second); len(f.known) > 8 || len(tally.Losses()) != 1 {
		t.Errorf("%d known, losses %v", len(f.known), tally.Losses())
	}
}

// Each value is counted in the bucket that has it or, within 1 % of a border, in the next one;
// and by both numberings.
func TestExponentialHistogram(t *testing.T) {
	var c converter
	for _, v := range []float64{1e-9, 0.5e-6, 1, 2, 3.7, 1000, 1e12, -5} {
		e := c.exponential(sketchOf(t, v), 1)
		s := e.positive
		if v < 0 {
			s = e.negative
		}
		base := math.Pow(2, math.Pow(2, float64(-e.schema)))
		low, high := math.Pow(base, float64(s.first-1)), math.Pow(base, float64(s.first))
		if u := math.Abs(v); len(s.counts) != 1 || s.counts[0] != 1 || e.count != 1 || u < low*0.99 || u > high*1.01 {
			t.Errorf("%g is in (%g, %g]: %+v", v, low, high, e)
		}
		if o := bucketsOf(s); math.Abs(math.Pow(base, float64(o.Offset))-low) > 1e-9*low {
			t.Errorf("OTLP has another border for %g", v)
		}
	}
	// Many orders of magnitude fit into the buckets, at a lower schema, and nothing is lost.
	var values []float64
	for i := range 600 {
		values = append(values, math.Pow(10, float64(i-300)/10))
	}
	e := c.exponential(sketchOf(t, append(values, 0, 0)...), 1)
	n := e.zero
	for _, c := range e.positive.counts {
		n += c
	}
	if len(e.positive.counts) > maxBuckets || n != 602 || e.zero != 2 || e.count != 602 || e.schema >= firstSchema {
		t.Errorf("%d buckets, %d values at schema %d", len(e.positive.counts), n, e.schema)
	}
	spans, deltas := spansOf(e.positive)
	length, count, at := 0, int64(0), int64(0)
	for _, s := range spans {
		length += int(s.GetLength())
	}
	for _, d := range deltas {
		at += d
		count += at
	}
	if length != len(deltas) || count != 600 {
		t.Errorf("%d buckets in spans, %d deltas, %d values", length, len(deltas), count)
	}
}

// sketchOf returns SKETCH of some values.
func sketchOf(t testing.TB, values ...float64) string {
	root := &plan.Aggregate{Input: &plan.Acquire{Stream: "series"}, Aggs: []plan.Agg{{Fn: "sketch", Args: []plan.Expr{&plan.Col{T: types.Double}}, T: types.Bytes}},
		Out: types.Schema{Fields: []types.Field{{Name: "s", Type: types.Bytes}}, Time: -1}}
	root.Input.(*plan.Acquire).Out = types.Schema{Fields: []types.Field{{Name: "v", Type: types.Double}}, Time: -1}
	var out keeper
	a, err := agg.New(root, &out, &operators.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for chunk := range slices.Chunk(values, 1000) {
		b := batch.New([]types.Type{types.Double})
		for _, v := range chunk {
			b.AppendRow(types.Float(v))
		}
		if _, err := a.Push(context.Background(), 0, b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	if err := a.Close(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	return out.last
}

type keeper struct{ last string }

func (k *keeper) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	k.last = b.Cols[0].Value(0).S
	return operators.More, nil
}

func (k *keeper) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (k *keeper) Close(context.Context, int) error { return nil }

// Two users may have exports of one name: labels tell them apart. A metric that has another
// type elsewhere is left out and counted; a scrape never fails.
func TestGather(t *testing.T) {
	r := NewRegistry()
	add := func(owner string, kind planner.MetricKind, sum string) *Export {
		p := callsPlan(10, every)
		p.Key = owner + ".e"
		p.Metrics[0].Kind = kind
		if sum != "" {
			p.Metrics[0].Name = sum
		}
		e := &Export{Plan: p, Owner: owner, Query: &query.Query{Tally: flow.NewTally(), Done: make(chan struct{})}, quit: make(chan struct{}), Over: make(chan struct{})}
		close(e.Over)
		e.figures = newFigures(p, e.Query.Tally)
		feed(t, e.figures, map[string]int64{"x": 3, "bad\xff": 1, "bad\xfe": 1}, "x", "bad\xff", "bad\xfe")
		if _, err := r.Put(e); err != nil {
			t.Fatal(err)
		}
		return e
	}
	add("alice", planner.Counter, "")
	add("bob", planner.Counter, "")
	carol := add("carol", planner.Gauge, "e_calls_total")
	count := func(selected func(string) bool) (n int, families map[string]*dto.MetricFamily) {
		families = map[string]*dto.MetricFamily{}
		for _, f := range r.Gather(selected) {
			families[f.GetName()] = f
		}
		return len(families["e_calls_total"].GetMetric()), families
	}
	if n, all := count(func(string) bool { return true }); n != 4 || len(all[metricUp].GetMetric()) != 3 {
		t.Errorf("%d series, %v", n, all)
	}
	if n, _ := count(func(owner string) bool { return owner == "bob" }); n != 2 {
		t.Errorf("bob sees %d series", n)
	}
	if len(carol.Query.Tally.Counts()) != 1 {
		t.Errorf("a metric of two types: %v", carol.Query.Tally.Counts())
	}
}

// BenchmarkExport10000Series takes in the totals of 10,000 groups, and serves them.
func BenchmarkExport10000Series(b *testing.B) {
	p := callsPlan(10_000, every)
	p.Metrics = append(p.Metrics, planner.Metric{Name: "e_bytes", Kind: planner.Gauge, Column: 1, Unit: planner.Unit{Per: 1}}, planner.Metric{Name: "e_duration", Kind: planner.Exponential, Column: 2, Sum: 1, Unit: planner.Unit{Per: 1e9}})
	var values []float64
	for i := range 200 {
		values = append(values, float64(1000+i*i*i))
	}
	sketch := types.Value{Type: types.Bytes, S: sketchOf(b, values...)}
	var batches []*batch.Batch
	dict := batch.NewDict()
	for from := 0; from < 10_000; from += 1000 {
		in := batch.New([]types.Type{types.Varchar, types.Bigint, types.Bytes})
		in.Cols[0].Dict = dict
		for i := range 1000 {
			in.AppendRow(types.Str(fmt.Sprintf("function_%d", from+i)), types.Int(int64(i)), sketch)
		}
		batches = append(batches, in)
	}
	e := &Export{Plan: p, Query: &query.Query{Tally: flow.NewTally(), Done: make(chan struct{})}, quit: make(chan struct{})}
	e.figures = newFigures(p, e.Query.Tally)
	round := func(b *testing.B) {
		for _, in := range batches {
			if _, err := e.figures.Push(context.Background(), 0, in); err != nil {
				b.Fatal(err)
			}
		}
		_, _ = e.figures.Signal(context.Background(), 0, operators.Signal{Kind: operators.Flush})
	}
	r := NewRegistry()
	_, _ = r.Put(e)
	round(b)
	// What a busy machine takes besides does not count.
	cpu := func(b *testing.B) func() {
		used := func() int64 {
			var u unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
			return u.Utime.Nano() + u.Stime.Nano()
		}
		began := used()
		b.ReportAllocs()
		return func() { b.ReportMetric(float64(used()-began)/1e6/float64(b.N), "cpu-ms/op") }
	}
	b.Run("take", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			round(b)
		}
	})
	b.Run("scrape", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			if n := len(r.Gather(func(string) bool { return true })); n < 3 {
				b.Fatal(n)
			}
		}
	})
	b.Run("remote write", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			if body := writeRequestOf(e, e.figures.Snapshot()); len(body) == 0 {
				b.Fatal("empty")
			}
		}
	})
	b.Run("otlp", func(b *testing.B) {
		defer cpu(b)()
		for b.Loop() {
			metricsRequest(e, e.figures.Snapshot())
		}
	})
}
