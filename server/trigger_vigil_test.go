package server

import (
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/sourcetest"
	"endoscope/server/query"
	"endoscope/server/sharing"

	"testing"

	"endoscope/planner"
	"endoscope/probes"
)

// costly is a source that stands by and whose calls cost too much.
type costly struct {
	probes.Source
	calls uint64
}

func (d *costly) Info() probes.Info   { return probes.Info{Standby: true, WaitNs: 1e3} }
func (d *costly) Stats() probes.Stats { d.calls += 1 << 40; return probes.Stats{Waited: d.calls} }

// Where what stood by could not begin, nothing stands by any more that could be too dear.
func TestNobodyLooksAtWhatDidNotBegin(t *testing.T) {
	spec := &plan.Acquire{Stream: "fake", Out: types.Schema{Time: -1}}
	ready, err := query.Prepare(t.Context(), "", &plan.Query{Root: spec}, query.Environment{
		Providers: map[string]probes.Provider{"fake": &sourcetest.Provider{}}, Shares: sharing.New(), Batches: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := &vigil{limit: waitingShare, sources: []probes.Source{&costly{}}}
	v.begin()
	defer v.end()
	tr := &trigger{plan: &planner.Trigger{Name: "t"}, host: full{}, tell: func(string) {}, stream: newTriggerStream(), ledger: newLedger()}
	q := &acquirer{t: tr, act: &planner.Action{}, vigil: v, standby: ready}
	q.arm(activation{n: 1})
	if q.running != nil || tr.errors.get() != errClosed.Error() {
		t.Fatalf("it began, or failed for %q", tr.errors.get())
	}
	if q.vigil.tick() != nil {
		t.Error("the goroutine would let go of a query that is not there")
	}
}

// full is a host that is closed.
type full struct{}

func (full) Enter(q *query.Query) error { q.Abandon(); return errClosed }
func (full) Leave(*query.Query)         {}
