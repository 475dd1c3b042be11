package fleet

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Hosts that hang when they execute a statement delay it once, all of them
// together, and return nothing.
func TestHostsThatDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cols := []wire.Column{{Name: "host", Type: types.Varchar}, {Name: "n", Type: types.Bigint}}
		a, b, c := newScripted("a", cols...), newScripted("b", cols...), newScripted("c", cols...)
		a.mute, b.mute = "series", "series"
		began := time.Now()
		s := sessionOf(a, b, c)
		r, err := s.Execute(t.Context(), "SELECT n FROM series(1)")
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != answering {
			t.Errorf("it is executed after %v", took)
		}
		for _, h := range []*scripted{a, b, c} {
			h.send(h.rows([]int64{1}))
			h.end()
		}
		if got := rest(t, r); len(got) != 1 || got[0] != "c 1" {
			t.Errorf("the rows are %q", got)
		}
		if notes := strings.Join(r.Summary().Notes, "; "); !strings.Contains(notes, "1 of 3 hosts (a: it does not answer; b: it does not answer)") {
			t.Errorf("the footer has %s", notes)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

// If the first host hangs, the next one describes a statement.
func TestTheNextHostDescribes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a"), newScripted("b")
		a.mute = "SELECT"
		if _, err := sessionOf(a, b).Describe(t.Context(), "SELECT 1"); err != nil {
			t.Error(err)
		}
		b.mute = "SELECT"
		if _, err := sessionOf(a, b).Describe(t.Context(), "SELECT 1"); err == nil || err.Error() != "no host answers" {
			t.Errorf("of hosts that all hang: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := sessionOf(a, b).Describe(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
			t.Errorf("if nobody waits any more: %v", err)
		}
	})
}

// A statement that no host accepts ends.
func TestNoHostAccepts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a", timedColumns...), newScripted("b", timedColumns...)
		a.mute, b.mute = rowsStatement, rowsStatement
		began := time.Now()
		if _, err := sessionOf(a, b).Execute(t.Context(), rowsStatement); err == nil || !strings.Contains(err.Error(), "none of 2 hosts answers") {
			t.Errorf("it is %v", err)
		}
		if took := time.Since(began); took != accepting {
			t.Errorf("it ends after %v", took)
		}
	})
}

// A lookup waits for hung hosts once, for all of them together, and not again
// until they have answered something.
func TestLookupsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, c := newScripted("a"), newScripted("b"), newScripted("c")
		a.mute, b.mute = "work", "work"
		s := sessionOf(a, b, c)
		complete := func(want string) (took time.Duration) {
			t.Helper()
			began := time.Now()
			if got := strings.Join(s.Complete(t.Context(), "function", "", "work"), " "); got != want {
				t.Errorf("they know %q, want %q", got, want)
			}
			return time.Since(began)
		}
		if took := complete("workc"); took != forLookups.all {
			t.Errorf("the first time it takes %v", took)
		}
		if took := complete("workc"); took != 0 {
			t.Errorf("then it takes %v", took)
		}
		synctest.Wait() // they hang in this question
		a.mute, b.mute = "", ""
		s.Complete(t.Context(), "function", "", "work") // they are asked, and answer, in time or not
		synctest.Wait()
		if took := complete("worka workb workc"); took != 0 {
			t.Errorf("of hosts that are back it takes %v", took)
		}
		time.Sleep(forLookups.all) // until the questions that were not waited for have ended
	})
}

// A hung host is reported, and the others return their information.
func TestHungHostsAreMarked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a"), newScripted("b")
		a.hung = make(chan struct{})
		s := sessionOf(a, b)
		for _, want := range []time.Duration{forLookups.all, 0} {
			began := time.Now()
			if got := strings.Join(s.Info(), "\n"); got != "engines: 1 of 2\na: it does not answer\nb: engine: b" {
				t.Errorf("they say\n%s", got)
			}
			if took := time.Since(began); took != want {
				t.Errorf("it takes %v, want %v", took, want)
			}
		}
		close(a.hung)
		time.Sleep(time.Second)
		if got := strings.Join(s.Info(), "\n"); got != "engines: 2 of 2\na: engine: a\nb: engine: b" {
			t.Errorf("of two that answer:\n%s", got)
		}
	})
}

// A result can be closed although a host does not close its part; the error
// reports that.
func TestResultsOfHungHostsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a", timedColumns...), newScripted("b", timedColumns...)
		a.hung = make(chan struct{})
		s := sessionOf(a, b)
		for _, want := range []time.Duration{forStatements.all, forStatements.silent} {
			r, err := s.Execute(t.Context(), rowsStatement)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range s.members {
				m.silent.Store(want == forStatements.silent && m.name == "a")
			}
			began := time.Now()
			if err := r.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("it is closed after %v, want %v", took, want)
			}
			if notes := strings.Join(r.Summary().Notes, "; "); !strings.Contains(notes, "1 of 2 hosts (a: it does not answer: its probes may still be attached)") {
				t.Errorf("the footer has %s", notes)
			}
		}
		close(a.hung)
		time.Sleep(time.Second)
	})
}

// A host that did not answer last time delays the next statement less.
func TestSilentHostsAreWaitedForLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newScripted("a"), newScripted("b")
		a.mute = "SET"
		s := sessionOf(a, b)
		for _, want := range []time.Duration{answering, forStatements.silent} {
			began := time.Now()
			r, err := s.Execute(t.Context(), "SET shared = 'off'")
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("it is executed after %v, want %v", took, want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
