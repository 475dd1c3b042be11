package trigger

import (
	"testing"
	"time"

	"endoscope/planner"
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
	const d = 20 * time.Millisecond
	m := &Shutter{t: &Trigger{Plan: &planner.Trigger{}}, act: &planner.Action{For: d}, gates: set, wake: make(chan struct{}, 1)}
	m.activate(activation{n: 1})
	defer m.timer.Stop()
	m.mu.Lock()
	testenv.Until(t, "the timer has gone off, and waits", func() bool { return testenv.Blocked("(*Shutter).") == 1 })
	m.mu.Unlock()
	testenv.Until(t, "the gate is shut when FOR is over", func() bool { return !set.Gate(0).Forced() })
	m.act = &planner.Action{For: time.Hour}
	m.activate(activation{n: 2})
	m.expire() // as a timer does that fired just before
	if !set.Gate(0).Forced() || !m.Status().acting {
		t.Error("the activation before which FOR was over was undone by it")
	}
	m.deadline = time.Now()
	m.expire()
	if set.Gate(0).Forced() {
		t.Error("FOR is over, and the gate is open")
	}
}
