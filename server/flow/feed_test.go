package flow

import (
	"context"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/types"
	"endoscope/probes"
)

// retold is a source that is asked to tell everything anew.
type retold struct {
	probes.Source
	times int
}

func (r *retold) Control(context.Context, probes.Command) (probes.Reply, error) {
	r.times++
	return probes.Reply{}, nil
}

// TestWhatNobodyTookIsToldAnew: a source whose rows rest on each other hears of those
// that the engine had to drop, and not of its own losses, of which it knows.
func TestWhatNobodyTookIsToldAnew(t *testing.T) {
	f := feedOfGroups(1)
	r := &retold{}
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
