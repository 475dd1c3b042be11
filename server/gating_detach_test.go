package server

import (
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/clock"
	"endoscope/probes/testenv"
	"endoscope/server/gating"
	"endoscope/server/introspect"
	"endoscope/server/query"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// TestProbesGoWhileTheGateIsShut: where the gate opens late anyway, calls that
// have paid enough at it are spared it, until it opens.
func TestProbesGoWhileTheGateIsShut(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, `#include <unistd.h>
volatile long sink;
__attribute__((noinline, noclone)) long work(long round, long n) { sink += n; return round; }
int main(void) { for (long n = 0;; n++) { work(0, n); usleep(1000); } }`, "-O0"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := newSession(t.Context(), e, wire.Options{PID: cmd.Process.Pid}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	execute(t, s, "SET join_gating = gated")
	execute(t, s, "SET join_plan = left")
	// No memory is so full.
	r := execute(t, s, `SELECT b.arg1 FROM SAMPLE(memory_usage, 50ms) m WINDOW JOIN function_start b WINDOW 100ms
WHERE b.function_name = 'work' AND m.percent_used > 200`)
	g := r.(*query.Result).Query.Gating
	way := g.Links[0]
	if way.Source == nil {
		t.Fatal("the probes could not be detached")
	}
	way.Attaching.Lock()
	way.Price = gating.AttachPrice{Attach: 1} // which few calls have paid
	way.Attaching.Unlock()
	testenv.Until(t, "the probes are detached", way.IsDetached)
	if n := len(e.uprobes.Probes()); n != 0 {
		t.Errorf("%d probes are attached", n)
	}
	testenv.Until(t, "the probe is attached again", func() bool {
		way.Arrived(clock.Now()) // the gate is open for 100 ms
		return !way.IsDetached() && len(e.uprobes.Probes()) == 1
	})
	r.Stop()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Batch != nil {
			ev.Batch.Release()
		}
	}
	sum := r.Summary()
	if len(sum.Notes) == 0 || !strings.Contains(sum.Notes[0], "times its probes had to be attached again, which took") {
		t.Errorf("the summary says %+v", sum)
	}
}

// Others may look at a query's sources from when it is in the list on: gates must
// be there by then, for which sources are taken that are not shared.
func TestGatesExistBeforeSourcesStart(t *testing.T) {
	e, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s, err := newSession(t.Context(), e, wire.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	execute(t, s, "SET join_gating = gated")
	over, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for !trigger.Stopped(over) {
			e.system.Users(introspect.Users{})
		}
	}()
	for range 20 {
		r := execute(t, s, "SELECT c.percent_user FROM SAMPLE(memory_usage, 50ms) m WINDOW JOIN SAMPLE(cpu_usage, 10ms) c WINDOW 10ms WHERE m.percent_used > 200")
		q := r.(*query.Result).Query
		if !slices.ContainsFunc(q.Gating.Inputs, func(in *gating.GatedInput) bool { return in.Gated }) {
			t.Error("nothing is gated")
		}
		r.Close()
	}
	close(over)
	<-looked
}
