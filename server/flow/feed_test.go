package flow

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/server/wire"
)

// resending is a source that supports Resend and counts its calls.
type resending struct {
	probes.Source
	times int
}

func (r *resending) Control(context.Context, probes.Command) (probes.Reply, error) {
	r.times++
	return probes.Reply{}, nil
}

// A source whose rows depend on each other is sent Resend when the engine dropped
// rows, and not for its own losses, which it knows.
func TestDroppedRowsAreResent(t *testing.T) {
	f := feedOfGroups(1)
	r := &resending{}
	f.Source, f.Info.Resends = r, true
	push := func() {
		b := batch.New([]types.Type{types.Timestamp})
		b.AppendRow(types.Time(0))
		f.Push(b)
	}
	push()
	f.Lost("ring buffer full", 1)
	if r.times != 0 {
		t.Errorf("asked %d times, nothing was dropped", r.times)
	}
	push()
	if r.times != 1 {
		t.Errorf("asked %d times", r.times)
	}
}

// A query that LIMIT ended counts neither calls under way nor rows that it left, but what a
// live source lost, which may have been before its last row.
func TestEnoughOfALiveSource(t *testing.T) {
	f := feedOfGroups(1)
	f.Lost("ring buffer full", 1)
	f.Count(probes.Unfinished, 2)
	f.Enough()
	f.Count(probes.Unfinished, 4)
	f.Lost("ring buffer full", 8)
	for range 3 { // more than the queue holds
		b := batch.New([]types.Type{types.Timestamp})
		b.AppendRow(types.Time(0))
		f.Push(b)
	}
	if diff := cmp.Diff([]wire.Loss{{Cause: "ring buffer full", N: 9}}, f.Tally.Losses()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]wire.Loss{{Cause: probes.Unfinished, N: 2}}, f.Tally.Counts()); diff != "" {
		t.Error(diff)
	}
	if n := f.Tally.Acquired.Load(); n != 0 {
		t.Errorf("%d rows acquired", n)
	}
}

// A source that waits for its consumer reports faults at their place among the rows: those
// that the query did not reach are not counted.
func TestEnoughOfAFile(t *testing.T) {
	f := feedOfGroups(8)
	f.Live = false
	f.Lost("bad line", 1)
	f.Count("bad value", 2)
	f.Push(batch.New([]types.Type{types.Timestamp}))
	f.Lost("bad line", 4)
	f.Count("bad value", 8)
	for it, ok := f.Queue.Pop(); ok; it, ok = f.Queue.Pop() {
		switch {
		case it.Fault != nil:
			f.Charge(it.Fault)
		case it.Batch != nil:
			it.Batch.Release()
			f.Enough()
		}
	}
	if diff := cmp.Diff([]wire.Loss{{Cause: "bad line", N: 1}}, f.Tally.Losses()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]wire.Loss{{Cause: "bad value", N: 2}}, f.Tally.Counts()); diff != "" {
		t.Error(diff)
	}
}
