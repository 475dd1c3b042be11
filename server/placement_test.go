package server

import (
	"testing"
	"time"

	"endoscope/planner/cost"
	"endoscope/planner/distribute"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Rows that wait for a client move operators back to the server before any is
// dropped, whatever the costs say, and they stay there for some time.
func TestCrowdedPathsMoveOperators(t *testing.T) {
	leaf := &plan.Acquire{Stream: plan.FragmentStream, Out: types.Schema{Time: -1, Fields: []types.Field{{Name: "c0", Type: types.Bigint}}}}
	f := &plan.Fragment{Lower: &plan.Filter{Input: leaf, Cond: &plan.Const{V: types.Bool(true)}}, Upper: leaf}
	o := newOutlet(newTally(), 64<<10)
	p := &placement{Division: &distribute.Division{Fragment: f}, out: o, at: atBase, mover: cost.NewMover(0), armed: time.Now(), judged: time.Now()}
	give := func(want division) {
		t.Helper()
		if err := p.decide(t.Context(), p.judged); err != nil {
			t.Fatal(err)
		}
		if p.at != want {
			t.Fatalf("%d bytes wait, and it is %s", o.held.bytes, p.at)
		}
		if err := p.give(t.Context(), wire.PortRows, rowsOf(1024)); err != nil {
			t.Fatal(err)
		}
	}
	for o.held.bytes <= o.unread/2 {
		give(atBase)
	}
	give(atBase) // a query that can wait does
	for ev, ok, _ := o.take(); ok; ev, ok, _ = o.take() {
		ev.Batch.Release()
	}
	o.hurried.Store(true)
	for o.held.bytes <= o.unread/2 {
		give(atBase)
	}
	give(atLower)
	if lost := o.t.losses(); len(lost) > 0 || len(p.moves) != 1 {
		t.Errorf("lost %v, moves %v", lost, p.moves)
	}
	if p.mover.Current() != 1 || p.mover.Next([]float64{0, 1e9}) != 1 || p.mover.Next([]float64{0, 1e9}) != 1 {
		t.Error("it does not stay there")
	}
	o.discard()
}
