package flow

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/operators/optest"
	_ "endoscope/operators/optest/seeds" // the same cases in every run
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/probes/gate"
)

// recorded is a stream of recorded tuples, in order of time.
var recorded = types.Schema{Time: 0, Fields: []types.Field{
	{Name: "timestamp", Type: types.Timestamp}, {Name: "k", Type: types.Bigint}, {Name: "n", Type: types.Bigint}}}

// gatedEngine runs joins of a.csv with b.csv. b is behind a gate opened by
// tuples of a for whose k `opens` holds. From time to time the gate is held
// open or released, as when plans change.
type gatedEngine struct {
	t      *rapid.T
	within int64
	// held: the rows of b are held until those of a have arrived. Otherwise
	// those that find the gate shut, at their own time, are dropped.
	held   bool
	most   int // batches held
	gate   *gate.Gate
	pushed int // rows of b that came to the join
}

const opensAt = 3 // tuples of a whose k is at least that pass its condition

// Run implements optest.Engine.
func (e *gatedEngine) Run(root plan.Node, in *optest.Input) (*optest.Output, error) {
	ctx := context.Background()
	set, err := gate.NewSet(1, false)
	if err != nil {
		return nil, err
	}
	e.gate = set.Gate(0)
	out := &recordedOutput{out: &optest.Output{}}
	var h *Holder
	o := &operators.Options{}
	if e.held {
		o.Tap = func(_ *plan.Join, port int) *operators.Tap {
			if port == 1 {
				return nil
			}
			return &operators.Tap{Rows: func(t int64) { h.Arrived(t, e.within) }, Watermark: func(t int64) { h.Passed(t) }}
		}
	}
	g, err := graph.Build(root, out, o)
	if err != nil {
		return nil, err
	}
	a, b := g.Leaves[0], g.Leaves[1]
	to := &recordedSink{ctx: ctx, leaf: b, e: e}
	h = NewHolder(to, e.gate, e.within, 0, e.most)
	passes := e.passes(in)
	for _, s := range in.Steps {
		if e.held && rapid.IntRange(0, 9).Draw(e.t, "switch") == 0 {
			force := !e.gate.Forced()
			e.gate.Force(force)
			if force {
				h.Release()
			}
		}
		switch {
		case s.Kind == optest.Watermark && s.Stream == "a.csv":
			_, err = a.Op.Signal(ctx, a.Port, operators.Signal{Kind: operators.Watermark, Time: s.Time})
		case s.Kind == optest.Watermark && e.held:
			h.Watermark(s.Time)
		case s.Kind == optest.Watermark:
			to.Watermark(s.Time)
		case s.Stream == "a.csv":
			rows := batchOf(s.Rows)
			_, err = a.Op.Push(ctx, a.Port, rows)
			rows.Release()
		case e.held:
			h.Push(batchOf(s.Rows))
		default:
			if rows := slices.DeleteFunc(slices.Clone(s.Rows), func(r []types.Value) bool { return !passes[r[2].I] }); len(rows) > 0 {
				to.Push(batchOf(rows))
			}
		}
		if err == nil {
			err = to.err
		}
		if err != nil {
			return nil, err
		}
	}
	if err := a.Op.Close(ctx, a.Port); err != nil {
		return nil, err
	}
	h.Release()
	if err := b.Op.Close(ctx, b.Port); err != nil {
		return nil, err
	}
	return out.out, to.err
}

// passes replays the tuples in order of time, and returns the n of those of b
// that find the gate open.
func (e *gatedEngine) passes(in *optest.Input) map[int64]bool {
	type event struct {
		row []types.Value
		a   bool
	}
	var all []event
	for _, s := range in.Steps {
		for _, r := range s.Rows {
			all = append(all, event{r, s.Stream == "a.csv"})
		}
	}
	// Of two at the same time neither is later: the gate opens after them.
	slices.SortStableFunc(all, func(x, y event) int {
		if x.row[0].I != y.row[0].I {
			return int(x.row[0].I - y.row[0].I)
		}
		if x.a == y.a {
			return 0
		}
		if x.a {
			return 1
		}
		return -1
	})
	passes := map[int64]bool{}
	if e.held {
		return passes
	}
	for _, ev := range all {
		if rapid.IntRange(0, 9).Draw(e.t, "switch") == 0 {
			e.gate.Force(!e.gate.Forced())
		}
		at := ev.row[0].I
		switch {
		case !ev.a:
			passes[ev.row[2].I] = e.gate.Admits(at)
		case ev.row[1].I >= opensAt:
			e.gate.Open(at, at+e.within)
		}
	}
	return passes
}

func batchOf(rows [][]types.Value) *batch.Batch {
	b := batch.New(recorded.Types())
	for _, r := range rows {
		b.AppendRow(r...)
	}
	return b
}

// recordedSink feeds a leaf.
type recordedSink struct {
	ctx  context.Context
	leaf graph.Leaf
	e    *gatedEngine
	mark int64
	err  error
}

func (s *recordedSink) Push(b *batch.Batch) {
	s.e.pushed += b.Len()
	for i := range b.Len() {
		if t := b.Cols[0].Int[b.Row(i)]; t < s.mark {
			s.err = fmt.Errorf("a row of %d behind the watermark %d", t, s.mark)
		}
	}
	if _, err := s.leaf.Op.Push(s.ctx, s.leaf.Port, b); err != nil {
		s.err = err
	}
	b.Release()
}

func (s *recordedSink) Watermark(t int64) {
	s.mark = max(s.mark, t)
	if _, err := s.leaf.Op.Signal(s.ctx, s.leaf.Port, operators.Signal{Kind: operators.Watermark, Time: t}); err != nil {
		s.err = err
	}
}

func (*recordedSink) Partial(*batch.Batch) {}

func (*recordedSink) Lost(string, uint64) {}

func (*recordedSink) Count(string, uint64) {}

func (*recordedSink) End(error) {}

// recordedOutput collects a join's rows.
type recordedOutput struct{ out *optest.Output }

func (o *recordedOutput) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	for i := range b.Len() {
		var row []types.Value
		for c := range b.Cols {
			row = append(row, b.Cols[c].Value(b.Row(i)))
		}
		o.out.Add(row)
	}
	return operators.More, nil
}

func (o *recordedOutput) Signal(_ context.Context, _ int, s operators.Signal) (operators.Status, error) {
	if s.Kind == operators.Gap {
		o.out.Lose(s.Cause, s.N)
	}
	return operators.More, nil
}

func (o *recordedOutput) Close(context.Context, int) error { return nil }

// record draws two streams and the order in which their tuples are delivered:
// either may be far behind the other.
func record(t *rapid.T) *optest.Input {
	in := &optest.Input{Relations: map[string]types.Schema{"a.csv": recorded, "b.csv": recorded}}
	base := clock.Now()
	now := map[string]int64{"a.csv": base, "b.csv": base}
	const behind = 6 // how far a stream may lag the clock
	n, clock := int64(0), base
	for range rapid.IntRange(20, 120).Draw(t, "steps") {
		name := rapid.SampledFrom([]string{"a.csv", "b.csv"}).Draw(t, "stream")
		if rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			now[name] = max(now[name], clock-int64(rapid.IntRange(0, behind).Draw(t, "promise")))
			in.Steps = append(in.Steps, optest.Step{Stream: name, Kind: optest.Watermark, Time: now[name]})
			continue
		}
		s := optest.Step{Stream: name, Kind: optest.Rows}
		for range rapid.IntRange(1, 2).Draw(t, "rows") {
			clock += int64(rapid.SampledFrom([]int{0, 1, 1, 2, 5}).Draw(t, "after"))
			now[name] = max(now[name], clock-int64(rapid.IntRange(0, behind).Draw(t, "behind")))
			n++
			s.Rows = append(s.Rows, []types.Value{types.Time(now[name]), types.Int(rapid.SampledFrom([]int64{0, 1, 3, 4}).Draw(t, "k")), types.Int(n)})
		}
		in.Steps = append(in.Steps, s)
	}
	return in
}

func recordedPlan(t interface{ Fatal(...any) }, statement string) plan.Node {
	st, err := parser.Parse(statement)
	if err != nil {
		t.Fatal(err)
	}
	q, err := planner.Plan(st.(*parser.Query), statement, &planner.Env{Views: definitions.NewViews(), Eval: expr.EvalConst,
		File: func(string) (types.Schema, error) { return recorded, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return q.Root
}

// TestGatedJoinIsTheJoin: for all streams, orders of arrival and changes of
// plan, a join whose second input is behind a gate returns what the oracle
// returns for both inputs in full.
func TestGatedJoinIsTheJoin(t *testing.T) {
	spared := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		within := int64(rapid.SampledFrom([]int{1, 4, 10}).Draw(t, "within"))
		e := &gatedEngine{t: t, within: within, held: rapid.Bool().Draw(t, "held"), most: rapid.SampledFrom([]int{2, 100}).Draw(t, "most")}
		join, followed := "WINDOW JOIN", "a FOLLOWED BY b"
		if rapid.Bool().Draw(t, "outer") {
			join = "LEFT WINDOW JOIN"
		}
		if e.held { // looks in both directions
			followed = rapid.SampledFrom([]string{followed, "", "b FOLLOWED BY a"}).Draw(t, "followed")
		}
		root := recordedPlan(t, fmt.Sprintf("SELECT a.n, b.n AS m FROM file('a.csv') a %s file('b.csv') b WINDOW %dns %s ON a.k = b.k + %d WHERE a.k >= %d",
			join, within, followed, rapid.IntRange(0, 1).Draw(t, "shift"), opensAt))
		in := record(t)
		if diff := optest.Check(e, root, in); diff != "" {
			t.Fatalf("%s\n%s", optest.Tree(root), diff)
		}
		for _, s := range in.Steps {
			if s.Stream == "b.csv" {
				spared[e.held] += len(s.Rows)
			}
		}
		spared[e.held] -= e.pushed
	})
	for _, held := range []bool{false, true} {
		if spared[held] == 0 {
			t.Errorf("held %v: the gate spared no row in any run", held)
		}
	}
}

// TestHolderGivesRowsNearAnOpener: rows are passed on when a row of the opener
// is near, and dropped when none can be.
func TestHolderGivesRowsNearAnOpener(t *testing.T) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	sink := &seen{}
	base := clock.Now()
	h := NewHolder(sink, set.Gate(0), 10, 0, 100)
	row := func(at int64) {
		h.Push(batchOf([][]types.Value{{types.Time(base + at), types.Int(0), types.Int(at)}}))
		h.Watermark(base + at)
	}
	expect := func(what string, rows ...int64) {
		t.Helper()
		if !slices.Equal(sink.rows, rows) {
			t.Errorf("%s: rows %v were given, want %v", what, sink.rows, rows)
		}
		sink.rows = nil
	}
	row(1)
	row(2)
	row(20)
	expect("nobody came")
	h.Passed(base + 12) // a row at base+12 needs those from base+2 on
	if len(h.held) != 2 {
		t.Errorf("%d rows are held", len(h.held))
	}
	if sink.mark != base+2 {
		t.Errorf("the watermark is at %d, and 2 is held", sink.mark-base)
	}
	h.Arrived(base+12, 10)
	expect("the opener came", 2, 20)
	row(22)
	expect("the gate is open", 22)
	row(23)
	expect("the gate is shut")
	if sink.mark != base+22 {
		t.Errorf("the watermark is at %d", sink.mark-base)
	}
	set.Gate(0).Force(true)
	h.Release()
	expect("it is forced", 23)
	set.Gate(0).Force(false)
	row(40)
	h.Passed(math.MaxInt64)
	expect("the opener has ended")
	if len(h.held) != 0 || sink.mark != base+40 {
		t.Errorf("%d rows are held, the watermark is at %d", len(h.held), sink.mark-base)
	}
	row(41)
	h.End(nil)
	expect("the end", 41)
}

// TestHolderIsBounded: if arrivals are not reported, held rows go to the queue,
// which is bounded and counts what it drops. If they are reported, nothing is
// lost.
func TestHolderIsBounded(t *testing.T) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	const limit, n = 100, 1000
	f := &Feed{Live: true, Queue: NewQueue(limit), Tally: NewTally()}
	h := NewHolder(f, set.Gate(0), 10, 0, limit/2)
	base := clock.Now()
	push := func(at int64) {
		h.Push(batchOf([][]types.Value{{types.Time(base + at), types.Int(0), types.Int(at)}}))
		h.Watermark(base + at)
		if len(h.held) > limit/2 {
			t.Fatalf("%d batches are held", len(h.held))
		}
	}
	for at := range int64(n) {
		push(at)
	}
	if got := f.Queue.rows + len(h.held) + int(f.Tally.TotalLost()); f.Queue.rows != limit || got != n {
		t.Errorf("%d batches are queued, %d held, %d lost, of %d", f.Queue.rows, len(h.held), f.Tally.TotalLost(), n)
	}
	mark := int64(math.MinInt64)
	taken := func() {
		for it, ok := f.Queue.Pop(); ok; it, ok = f.Queue.Pop() {
			if it.mark() {
				mark = it.Signal.Time
				continue
			}
			if it.gap() {
				continue
			}
			if at := it.Batch.Cols[0].Int[0]; at < mark {
				t.Errorf("%d comes behind the watermark %d", at, mark)
			}
			it.Batch.Release()
		}
	}
	taken()
	lost := f.Tally.TotalLost()
	for at := int64(n); at < 2*n; at++ {
		push(at)
		taken()
	}
	if f.Tally.TotalLost() != lost {
		t.Errorf("%d were lost though the queue had room", f.Tally.TotalLost()-lost)
	}
}

// seen is a sink that keeps the third column.
type seen struct {
	recordedSink
	rows []int64
	mark int64
}

func (s *seen) Push(b *batch.Batch) {
	for i := range b.Len() {
		s.rows = append(s.rows, b.Cols[2].Int[b.Row(i)])
	}
	b.Release()
}

func (s *seen) Watermark(t int64) { s.mark = t }
