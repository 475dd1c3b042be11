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
func TestFailedStartEndsMonitoring(t *testing.T) {
	spec := &plan.Acquire{Stream: "fake", Out: types.Schema{Time: -1}}
	ready, err := query.Prepare(t.Context(), "", &plan.Query{Root: spec}, query.Environment{
		Providers: map[string]probes.Provider{"fake": &sourcetest.Provider{}}, Shares: sharing.New(), Batches: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := newCostMonitor("auto")
	m.watch([]probes.Source{&costly{}})
	defer m.end()
	tr := &Trigger{Plan: &planner.Trigger{Name: "t"}, Host: full{}, Notify: func(string) {}, Stream: NewStream(), Ledger: NewLedger()}
	q := &Acquirer{t: tr, act: &planner.Action{}, monitor: m, wake: make(chan struct{}, 1)}
	s := &standby{q: q}
	s.next.Store(ready)
	q.arming = s
	q.activate(activation{n: 1})
	if goesOn := q.follow(); !goesOn || s.running != nil || tr.Errors.Get() != ErrClosed.Error() {
		t.Fatalf("goes on: %t, running: %v, error %q", goesOn, s.running, tr.Errors.Get())
	}
	if m.tick() != nil {
		t.Error("a query that is not there is monitored")
	}
	if q.Status().acting {
		t.Error("the next activation would not try again")
	}
}

// full is a host that is closed.
type full struct{}

func (full) Enter(q *query.Query) error { q.Abandon(); return ErrClosed }

func (full) Leave(*query.Query) {}
