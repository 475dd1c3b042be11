package server

import (
	"context"
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
	s, dir := loopSession(t)
	text := "CREATE TRIGGER t ON file('" + dir + "/in.csv') WHEN n > 0 BEGIN SELECT n FROM series(3) END"
	p, err := planner.PlanTrigger(parsed(t, text), text, s.env())
	if err != nil {
		t.Fatal(err)
	}
	ready, err := s.prepare(context.Background(), text, p.Actions[0].Query)
	if err != nil {
		t.Fatal(err)
	}
	v := &vigil{limit: waitingShare, sources: []probes.Source{&costly{}}}
	v.begin()
	defer v.end()
	tr := &trigger{plan: p, owner: s, stream: newTriggerStream(), ledger: newLedger()}
	q := &acquirer{t: tr, act: &p.Actions[0], e: s.e, vigil: v, standby: ready}
	s.e.Close()
	q.arm(activation{n: 1})
	if q.running != nil || tr.errors.get() != errClosed.Error() {
		t.Fatalf("it began, or failed for %q", tr.errors.get())
	}
	if q.vigil.tick() != nil {
		t.Error("the goroutine would let go of a query that is not there")
	}
}
