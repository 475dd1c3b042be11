package trigger

import (
	"testing"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/sourcetest"
	"endoscope/server/query"
	"endoscope/server/sharing"
)

// costly is a source that can stand by and whose calls cost too much.
type costly struct {
	probes.Source
	calls uint64
}

func (d *costly) Info() probes.Info { return probes.Info{Standby: true, WaitNs: 1e3} }

func (d *costly) Stats() probes.Stats { d.calls += 1 << 40; return probes.Stats{Waited: d.calls} }

// If a standby query could not begin, none is left that could cost too much.
func TestNobodyLooksAtWhatDidNotBegin(t *testing.T) {
	spec := &plan.Acquire{Stream: "fake", Out: types.Schema{Time: -1}}
	ready, err := query.Prepare(t.Context(), "", &plan.Query{Root: spec}, query.Environment{
		Providers: map[string]probes.Provider{"fake": &sourcetest.Provider{}}, Shares: sharing.New(), Batches: 1})
	if err != nil {
		t.Fatal(err)
	}
	v := &CostMonitor{limit: WaitingShare, sources: []probes.Source{&costly{}}}
	v.begin()
	defer v.end()
	tr := &Trigger{Plan: &planner.Trigger{Name: "t"}, Host: full{}, Tell: func(string) {}, Stream: NewStream(), Ledger: NewLedger()}
	q := &Acquirer{t: tr, act: &planner.Action{}, monitor: v, standby: ready}
	q.arm(activation{n: 1})
	if q.running != nil || tr.Errors.Get() != ErrClosed.Error() {
		t.Fatalf("it began, or failed for %q", tr.Errors.Get())
	}
	if q.monitor.tick() != nil {
		t.Error("the goroutine would let go of a query that is not there")
	}
}

// full is a host that is closed.
type full struct{}

func (full) Enter(q *query.Query) error { q.Abandon(); return ErrClosed }

func (full) Leave(*query.Query) {}
