package server

import (
	"fmt"
	"slices"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// counting is the first stage of COUNT(*) by a number.
var counting = func() *plan.Partial {
	p, _ := plan.NewPartial([]plan.Expr{&plan.Col{Name: "n", T: types.Bigint}}, []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}}, 10)
	return p
}()

// groups is a batch of partial rows of n groups: one event each, of one pane.
func groups(pane, first, n int64) *batch.Batch {
	b := batch.New(counting.Out.Types())
	for i := range n {
		b.AppendRow(types.Time(pane), types.Int(first+i), types.Int(1))
	}
	return b
}

func feedOfGroups(limit int) *feed {
	return &feed{spec: &plan.Acquire{Partial: counting}, live: true, q: newQueue(limit), t: newTally()}
}

// taken empties the queue, and adds up the events of its partial rows, by pane.
// Each must come before the watermark that closes its pane.
func taken(t *testing.T, f *feed) (batches int, events map[int64]int64) {
	t.Helper()
	events = map[int64]int64{}
	mark := int64(-1 << 62)
	for it, ok := f.q.pop(); ok; it, ok = f.q.pop() {
		switch {
		case it.partial != nil:
			batches++
			for i := range it.batch.N {
				pane := it.batch.Cols[0].Int[i]
				if pane < mark {
					t.Errorf("partial rows of %d behind the watermark %d", pane, mark)
				}
				events[pane] += it.batch.Cols[2].Int[i]
			}
			it.batch.Release()
		case it.mark():
			mark = it.signal.Time
		}
	}
	if f.q.rows+f.q.partials+len(f.q.marks) != 0 {
		t.Errorf("an empty queue counts %d batches, %d of partial rows, %d watermarks", f.q.rows, f.q.partials, len(f.q.marks))
	}
	return batches, events
}

// A query that is not taken from keeps all states of few groups in little room.
func TestPartialRowsAreMerged(t *testing.T) {
	f := feedOfGroups(512)
	for i := range int64(10_000) {
		f.Partial(groups(i/1000*10, i%7, 3))
		f.Watermark(i / 1000 * 10)
	}
	if n := len(f.q.items); n > 2*leastMerged+10 {
		t.Errorf("%d things are queued", n)
	}
	batches, events := taken(t, f)
	for pane := range int64(10) {
		if events[pane*10] != 3000 {
			t.Errorf("%d events of pane %d", events[pane*10], pane*10)
		}
	}
	if lost := f.t.totalLost(); lost > 0 || batches > 2*leastMerged {
		t.Errorf("%d batches, %d events lost", batches, lost)
	}
}

// Where reporting is suspended and resumed, partial rows stay on their side of it.
func TestPartialRowsAreNotMergedAcrossSuspend(t *testing.T) {
	f := feedOfGroups(512)
	signals := []operators.SignalKind{operators.Suspend, operators.Resume}
	const each = 3 * leastMerged
	for i := range 3 {
		for range each {
			f.Partial(groups(0, 1, 1))
		}
		if i < len(signals) {
			f.q.push(item{signal: operators.Signal{Kind: signals[i]}}, false)
		}
	}
	if n := len(f.q.items); n >= 3*each {
		t.Errorf("%d things are queued: nothing was merged", n)
	}
	var events []int64
	sum := int64(0)
	for it, ok := f.q.pop(); ok; it, ok = f.q.pop() {
		if it.partial == nil {
			events, sum = append(events, sum), 0
			continue
		}
		for i := range it.batch.N {
			sum += it.batch.Cols[2].Int[i]
		}
		it.batch.Release()
	}
	if events = append(events, sum); !slices.Equal(events, []int64{each, each, each}) {
		t.Errorf("events before, in and after the suspension: %v, want %d of each", events, each)
	}
}

// Where no two rows are of one group there is a limit; what is beyond it is
// counted, in events. It does not touch rows, nor do they touch it.
func TestPartialRowsAreBounded(t *testing.T) {
	f := feedOfGroups(100)
	const n = 250
	for i := range int64(n) {
		f.Partial(groups(0, 1000*i, 1000))
	}
	b := batch.New([]types.Type{types.Bigint})
	b.AppendRow(types.Int(1))
	for range 150 {
		f.Push(b.Retain())
	}
	if f.q.partials != 100 || f.q.rows != 100 {
		t.Errorf("%d batches of partial rows, %d of rows", f.q.partials, f.q.rows)
	}
	_, events := taken(t, f)
	if lost := int64(f.t.totalLost()) - 50; lost < 1000 || events[0]+lost != 1000*n {
		t.Errorf("%d events came, %d were lost, of %d", events[0], lost, 1000*n)
	}
	// There is room again, and merging.
	f = feedOfGroups(100)
	for i := range int64(110) {
		f.Partial(groups(0, 1000*i, 1000))
	}
	lost := f.t.totalLost()
	taken(t, f)
	for range 1000 {
		f.Partial(groups(0, 0, 1000))
	}
	if batches, events := taken(t, f); events[0] != 1_000_000 || batches > 2*leastMerged || f.t.totalLost() != lost {
		t.Errorf("%d batches with %d events, %d lost", batches, events[0], f.t.totalLost()-lost)
	}
	// A query that is over loses nothing.
	f.q.close()
	f.Partial(groups(0, 0, 1))
	f.Push(b.Retain())
	if f.t.totalLost() != lost {
		t.Error("what nobody wants any more is counted as lost")
	}
}

// Watermarks of several leaves replace those before them, as long as nothing
// of their own leaf came between.
func TestWatermarksAreBounded(t *testing.T) {
	q := newQueue(4)
	mark := func(leaf int, at int64) {
		q.push(item{leaf: leaf, signal: operators.Signal{Kind: operators.Watermark, Time: at}}, false)
	}
	for i := range int64(5000) {
		mark(0, i)
		mark(1, i)
		if i%1000 == 0 {
			b := batch.New([]types.Type{types.Bigint})
			b.AppendRow(types.Int(i))
			q.push(item{leaf: 1, batch: b}, false)
		}
	}
	mark(2, 7)
	var got string
	for it, ok := q.pop(); ok; it, ok = q.pop() {
		if it.mark() {
			got += fmt.Sprintf("%d:%d ", it.leaf, it.signal.Time)
		} else {
			got += fmt.Sprintf("row %d ", it.batch.Cols[0].Int[0])
		}
		if len(got) < 20 {
			mark(2, 8) // while it is taken from
		}
	}
	if want := "0:4999 1:0 row 0 1:1000 row 1000 1:2000 row 2000 1:3000 row 3000 1:4999 2:8 "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestGapsStandWhereRowsAreMissing: what is lost is signalled between the rows before
// it and those behind it, once however often it is told; and what is refused by a
// queue that is full, too.
func TestGapsStandWhereRowsAreMissing(t *testing.T) {
	f := feedOfGroups(2)
	push := func() {
		b := batch.New([]types.Type{types.Timestamp})
		b.AppendRow(types.Time(0))
		f.Push(b)
	}
	f.Lost("ring buffer full", 3)
	push()
	f.Lost("ring buffer full", 1)
	f.Watermark(1)
	f.Lost("ring buffer full", 2)
	push()
	push() // there is no room
	push()
	f.Lost("nothing", 0)
	var got string
	for it, ok := f.q.pop(); ok; it, ok = f.q.pop() {
		switch {
		case it.gap():
			got += "gap "
		case it.mark():
			got += "mark "
		default:
			got += "rows "
			it.batch.Release()
		}
	}
	if want := "gap rows gap mark rows gap "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := f.t.totalLost(); n != 8 {
		t.Errorf("%d events lost, want 8", n)
	}
}
