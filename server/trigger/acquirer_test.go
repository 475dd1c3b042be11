package trigger

import (
	"errors"
	"testing"
	"time"

	"endoscope/planner"
	"endoscope/probes"
	"endoscope/probes/gate"
	"endoscope/probes/testenv"
)

// The end of FOR does not shut a gate if an activation came meanwhile: the
// timer may have fired before, and run after it.
func TestLaterActivationOutlivesFor(t *testing.T) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	m := &Acquirer{t: &Trigger{Plan: &planner.Trigger{}}, act: &planner.Action{For: time.Hour}, wake: make(chan struct{}, 1),
		arming: &gated{gates: set, rows: &publisher{}}}
	m.activate(activation{n: 1})
	defer m.timer.Stop()
	m.mu.Lock()
	m.wanted.deadline = time.Now()
	m.timer.Reset(0)
	testenv.Until(t, "the timer has gone off, and waits", func() bool { return testenv.Blocked("(*Acquirer).") == 1 })
	m.mu.Unlock()
	testenv.Until(t, "the gate is shut when FOR is over", func() bool { return !set.Gate(0).Forced() })
	m.activate(activation{n: 2})
	m.expire() // as a timer does that fired just before
	if !set.Gate(0).Forced() || !m.Status().acting {
		t.Error("the activation before which FOR was over was undone by it")
	}
	m.wanted.deadline = time.Now()
	m.expire()
	if set.Gate(0).Forced() {
		t.Error("FOR is over, and the gate is open")
	}
}

// failing is an arming whose probes cannot be attached.
type failing struct {
	gated
	attempts int
}

func (f *failing) follow(w wanted) error {
	if w.on {
		f.attempts++
		return errors.New("no")
	}
	return nil
}

func (f *failing) waiting() []probes.Source { return nil }

func (f *failing) done() <-chan struct{} { return nil }

// After an activation that could not be armed the gate is shut, and the next
// activation tries again.
func TestFailedActivationIsUndone(t *testing.T) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	f := &failing{gated: gated{gates: set, rows: &publisher{}}}
	q := &Acquirer{t: &Trigger{Plan: &planner.Trigger{}, Notify: func(string) {}}, act: &planner.Action{}, monitor: &costMonitor{}, wake: make(chan struct{}, 1), arming: f}
	for n := range 2 {
		q.activate(activation{n: int64(n + 1)})
		if !set.Gate(0).Forced() {
			t.Error("the activation did not open the gate")
		}
		if !q.follow() || f.attempts != n+1 || set.Gate(0).Forced() || q.Status().acting {
			t.Errorf("%d attempts after %d activations, gate open: %t, acting: %t", f.attempts, n+1, set.Gate(0).Forced(), q.Status().acting)
		}
	}
	q.finish()
	if q.follow() {
		t.Error("it goes on after the last activation")
	}
}

// An activation after the end is counted, and is an error unless the trigger
// was dropped.
func TestActivationAfterTheEnd(t *testing.T) {
	tr := &Trigger{Plan: &planner.Trigger{}, Notify: func(string) {}, Quit: make(chan struct{})}
	q := &Acquirer{t: tr, act: &planner.Action{Text: "MONITOR x"}, over: true}
	q.activate(activation{n: 1})
	if got := tr.Errors.Get(); got != "MONITOR x: what it monitors has ended" {
		t.Errorf("the error is %q", got)
	}
	tr.Errors = lastError{}
	tr.Drop()
	q.activate(activation{n: 2})
	if got := tr.Errors.Get(); got != "" {
		t.Errorf("the error after DROP is %q", got)
	}
	if st := q.Status(); st.skipped != 2 || st.acting {
		t.Errorf("status %+v", st)
	}
}
