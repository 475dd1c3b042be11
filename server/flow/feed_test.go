package flow

import (
	"context"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
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
