package placement

import (
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/cost"
	"endoscope/planner/distribute"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/flow"
	"endoscope/server/wire"
)

// Rows that wait for a client move operators back to the server before any is
// dropped, whatever the costs are, and they stay there for some time.
func TestCrowdedPathsMoveOperators(t *testing.T) {
	leaf := &plan.Acquire{Stream: plan.FragmentStream, Out: types.Schema{Time: -1, Fields: []types.Field{{Name: "c0", Type: types.Bigint}}}}
	f := &plan.Fragment{Lower: &plan.Filter{Input: leaf, Cond: &plan.Const{V: types.Bool(true)}}, Upper: leaf}
	losses := flow.NewTally()
	o := flow.NewOutlet(losses, 64<<10)
	p := &Placement{Division: &distribute.Division{Fragment: f}, Out: o, at: atBase, mover: cost.NewMover(0), armed: time.Now(), judged: time.Now()}
	give := func(want division) {
		t.Helper()
		if err := p.decide(t.Context(), p.judged); err != nil {
			t.Fatal(err)
		}
		if p.at != want {
			t.Fatalf("%d rows wait, and it is %s", o.UnreadRows(), p.at)
		}
		if err := p.send(t.Context(), wire.PortRows, numbered(1024)); err != nil {
			t.Fatal(err)
		}
	}
	for range 6 { // more than half of what may wait; a query that can wait does
		give(atBase)
	}
	o.Discard()
	o.Live.Store(true)
	for !o.NearlyFull() {
		give(atBase)
	}
	give(atLower)
	if lost := losses.Losses(); len(lost) > 0 || len(p.moves) != 1 {
		t.Errorf("lost %v, moves %v", lost, p.moves)
	}
	if p.mover.Current() != 1 || p.mover.Next([]float64{0, 1e9}) != 1 || p.mover.Next([]float64{0, 1e9}) != 1 {
		t.Error("it does not stay there")
	}
	o.Discard()
}

// numbered returns a batch of n rows of one column.
func numbered(n int) *batch.Batch {
	b := batch.New([]types.Type{types.Bigint})
	for i := range n {
		b.AppendRow(types.Int(int64(i)))
	}
	return b
}
