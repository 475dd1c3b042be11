package flow

import (
	"fmt"
	"slices"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// counting is the first stage of COUNT(*) grouped by a number.
var counting = func() *plan.Partial {
	p, _ := plan.NewPartial([]plan.Expr{&plan.Col{Name: "n", T: types.Bigint}}, []plan.Agg{{Fn: "count", Star: true, T: types.Bigint}}, 10)
	return p
}()

// groups returns a batch of partial rows of n groups: one event each, in one
// pane.
func groups(pane, first, n int64) *batch.Batch {
	b := batch.New(counting.Out.Types())
	for i := range n {
		b.AppendRow(types.Time(pane), types.Int(first+i), types.Int(1))
	}
	return b
}

func feedOfGroups(limit int) *Feed {
	return &Feed{Spec: &plan.Acquire{Partial: counting}, Live: true, Queue: NewQueue(limit), Tally: NewTally()}
}

// taken empties the queue, and sums the events of its partial rows by pane.
// Each must come before the watermark that closes its pane.
func taken(t *testing.T, f *Feed) (batches int, events map[int64]int64) {
	t.Helper()
	events = map[int64]int64{}
	mark := int64(-1 << 62)
	for it, ok := f.Queue.Pop(); ok; it, ok = f.Queue.Pop() {
		switch {
		case it.Partial != nil:
			batches++
			for i := range it.Batch.N {
				pane := it.Batch.Cols[0].Int[i]
				if pane < mark {
					t.Errorf("partial rows of %d behind the watermark %d", pane, mark)
				}
				events[pane] += it.Batch.Cols[2].Int[i]
			}
			it.Batch.Release()
		case it.mark():
			mark = it.Signal.Time
		}
	}
	if f.Queue.rows+f.Queue.partials+len(f.Queue.marks) != 0 {
		t.Errorf("an empty queue counts %d batches, %d of partial rows, %d watermarks", f.Queue.rows, f.Queue.partials, len(f.Queue.marks))
	}
	return batches, events
}

// While nothing is taken, the states of few groups take little room.
func TestPartialRowsAreMerged(t *testing.T) {
	f := feedOfGroups(512)
	for i := range int64(10_000) {
		f.Partial(groups(i/1000*10, i%7, 3))
		f.Watermark(i / 1000 * 10)
	}
	if n := len(f.Queue.items); n > 2*leastMerged+10 {
		t.Errorf("%d things are queued", n)
	}
	batches, events := taken(t, f)
	for pane := range int64(10) {
		if events[pane*10] != 3000 {
			t.Errorf("%d events of pane %d", events[pane*10], pane*10)
		}
	}
	if lost := f.Tally.TotalLost(); lost > 0 || batches > 2*leastMerged {
		t.Errorf("%d batches, %d events lost", batches, lost)
	}
}

// Partial rows are not merged across SUSPEND and RESUME.
func TestPartialRowsAreNotMergedAcrossSuspend(t *testing.T) {
	f := feedOfGroups(512)
	signals := []operators.SignalKind{operators.Suspend, operators.Resume}
	const each = 3 * leastMerged
	for i := range 3 {
		for range each {
			f.Partial(groups(0, 1, 1))
		}
		if i < len(signals) {
			f.Queue.Push(Item{Signal: operators.Signal{Kind: signals[i]}}, false)
		}
	}
	if n := len(f.Queue.items); n >= 3*each {
		t.Errorf("%d things are queued: nothing was merged", n)
	}
	var events []int64
	sum := int64(0)
	for it, ok := f.Queue.Pop(); ok; it, ok = f.Queue.Pop() {
		if it.Partial == nil {
			events, sum = append(events, sum), 0
			continue
		}
		for i := range it.Batch.N {
			sum += it.Batch.Cols[2].Int[i]
		}
		it.Batch.Release()
	}
	if events = append(events, sum); !slices.Equal(events, []int64{each, each, each}) {
		t.Errorf("events before, in and after the suspension: %v, want %d of each", events, each)
	}
}

// If all rows are of different groups there is a limit; the events beyond it
// are counted. It does not affect ordinary rows, nor do they affect it.
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
	if f.Queue.partials != 100 || f.Queue.rows != 100 {
		t.Errorf("%d batches of partial rows, %d of rows", f.Queue.partials, f.Queue.rows)
	}
	_, events := taken(t, f)
	if lost := int64(f.Tally.TotalLost()) - 50; lost < 1000 || events[0]+lost != 1000*n {
		t.Errorf("%d events came, %d were lost, of %d", events[0], lost, 1000*n)
	}
	// There is room again, and rows are merged.
	f = feedOfGroups(100)
	for i := range int64(110) {
		f.Partial(groups(0, 1000*i, 1000))
	}
	lost := f.Tally.TotalLost()
	taken(t, f)
	for range 1000 {
		f.Partial(groups(0, 0, 1000))
	}
	if batches, events := taken(t, f); events[0] != 1_000_000 || batches > 2*leastMerged || f.Tally.TotalLost() != lost {
		t.Errorf("%d batches with %d events, %d lost", batches, events[0], f.Tally.TotalLost()-lost)
	}
	// A query that has ended loses nothing.
	f.Queue.Close()
	f.Partial(groups(0, 0, 1))
	f.Push(b.Retain())
	if f.Tally.TotalLost() != lost {
		t.Error("what nobody wants any more is counted as lost")
	}
}

// A watermark replaces the previous one of its leaf, as long as nothing from
// that leaf came in between.
func TestWatermarksAreBounded(t *testing.T) {
	q := NewQueue(4)
	mark := func(leaf int, at int64) {
		q.Push(Item{Leaf: leaf, Signal: operators.Signal{Kind: operators.Watermark, Time: at}}, false)
	}
	for i := range int64(5000) {
		mark(0, i)
		mark(1, i)
		if i%1000 == 0 {
			b := batch.New([]types.Type{types.Bigint})
			b.AppendRow(types.Int(i))
			q.Push(Item{Leaf: 1, Batch: b}, false)
		}
	}
	mark(2, 7)
	var got string
	for it, ok := q.Pop(); ok; it, ok = q.Pop() {
		if it.mark() {
			got += fmt.Sprintf("%d:%d ", it.Leaf, it.Signal.Time)
		} else {
			got += fmt.Sprintf("row %d ", it.Batch.Cols[0].Int[0])
		}
		if len(got) < 20 {
			mark(2, 8) // during a round
		}
	}
	if want := "0:4999 1:0 row 0 1:1000 row 1000 1:2000 row 2000 1:3000 row 3000 1:4999 2:8 "; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestGapsStandWhereRowsAreMissing: a loss is signalled between the rows before
// and after it, once, however often it is reported; so is what a full queue
// refuses.
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
	for it, ok := f.Queue.Pop(); ok; it, ok = f.Queue.Pop() {
		switch {
		case it.gap():
			got += "gap "
		case it.mark():
			got += "mark "
		default:
			got += "rows "
			it.Batch.Release()
		}
	}
	if want := "gap rows gap mark rows gap "; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := f.Tally.TotalLost(); n != 8 {
		t.Errorf("%d events lost, want 8", n)
	}
}

// A round takes what was queued when it began, whatever is merged meanwhile.
func TestRoundIsNotMerged(t *testing.T) {
	f := feedOfGroups(512)
	for i := range int64(3) {
		f.Partial(groups(0, i, 1))
	}
	f.End(nil)
	n := f.Queue.Round()
	for i := range int64(5 * leastMerged) {
		f.Partial(groups(0, 10+1000*i, 1000))
	}
	var first []int64
	for range n {
		if it, _ := f.Queue.Pop(); it.Partial != nil {
			first = append(first, it.Batch.Cols[1].Int[0])
			it.Batch.Release()
		} else if !it.End {
			t.Error("a round has what is no part of it")
		}
	}
	if !slices.Equal(first, []int64{0, 1, 2}) {
		t.Errorf("a round had the groups %v", first)
	}
	if _, events := taken(t, f); events[0]+int64(f.Tally.TotalLost()) != 5*leastMerged*1000 {
		t.Errorf("%d events came behind it, %d were lost", events[0], f.Tally.TotalLost())
	}
}
