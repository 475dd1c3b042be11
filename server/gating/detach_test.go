package gating

import (
	"context"
	"errors"
	"strings"
	"testing"

	"endoscope/probes"
	"endoscope/probes/gate"
	"endoscope/probes/testenv"
)

// moody is a source whose probes sometimes cannot be attached again.
type moody struct {
	probes.Source
	refusals int
}

func (m *moody) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	if _, ok := c.(probes.Attach); ok {
		if m.refusals--; m.refusals >= 0 {
			return r, errors.New("not now")
		}
	}
	return r, nil
}

func (m *moody) Stats() probes.Stats { return probes.Stats{} }

// Attaching probes again is retried while the gate is open, and the time
// without them is reported.
func TestProbesAreTriedAgain(t *testing.T) {
	set, err := gate.NewSet(1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	e := &link{gate: set.Gate(0)}
	e.Source, e.detached = &moody{refusals: 2}, true
	g := &Gating{mayAttach: always, stop: make(chan struct{})}
	g.done.Go(func() { g.runAttachment(e) })
	e.gate.Force(true)
	testenv.Until(t, "the probes are attached again", func() bool { return !e.IsDetached() })
	close(g.stop)
	g.done.Wait()
	if late := e.unattached(); late < detachCheckInterval {
		t.Errorf("nothing was attached for %v", late)
	}
	if len(g.attachErrors) != 1 || !strings.Contains(g.attachErrors[0], "not now") {
		t.Errorf("the errors are %q", g.attachErrors)
	}
}
