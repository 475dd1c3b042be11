package server

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"endoscope/operators"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/sourcetest"
)

// atPhase is a lifecycle in a phase.
func atPhase(p queryPhase) *lifecycle {
	l := &lifecycle{}
	l.now.Store(uint32(p))
	return l
}

func runs() *lifecycle { return atPhase(phaseRunning) }

// TestPhaseMoves: of all moves from one phase to another, these are allowed.
func TestPhaseMoves(t *testing.T) {
	allowed := []string{
		"prepared > loaded", "prepared > running", "prepared > abandoned",
		"loaded > standing by", "loaded > running", "loaded > abandoned",
		"standing by > running", "standing by > abandoned",
		"running > ending", "ending > done",
	}
	for from := range queryPhases {
		for to := range queryPhases {
			l, name := atPhase(from), from.String()+" > "+to.String()
			moved := l.move(to)
			if moved != slices.Contains(allowed, name) {
				t.Errorf("%s: %v", name, moved)
			}
			if now := l.phase(); moved && now != to || !moved && now != from {
				t.Errorf("%s: it is %s then", name, now)
			}
		}
	}
}

// TestPhaseSteps: what may be done to a query in each phase, how the phase is shown, and
// whether the query has run.
func TestPhaseSteps(t *testing.T) {
	for p, want := range map[queryPhase]string{
		phasePrepared:  "preparing: be loaded, start, remember",
		phaseLoaded:    "preparing: stand by, start, remember",
		phaseStandby:   "preparing: start, remember",
		phaseRunning:   "running, has run: report, collect, attach, end",
		phaseEnding:    "ending, has run: report",
		phaseDone:      "ending, has run: ",
		phaseAbandoned: "preparing: ",
	} {
		l := atPhase(p)
		got := l.shown()
		if l.started() {
			got += ", has run"
		}
		var may []string
		for s := range steps {
			err := l.check(s)
			if l.may(s) != (err == nil) {
				t.Errorf("%s: %s is %v, and the error is %v", p, s, l.may(s), err)
			}
			if err == nil {
				may = append(may, s.String())
			}
		}
		if got += ": " + strings.Join(may, ", "); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
}

// TestOneMoveWins: of many who make the same move at once, one has made it.
func TestOneMoveWins(t *testing.T) {
	l := runs()
	var won atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if l.move(phaseEnding) {
				won.Add(1)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || l.phase() != phaseEnding {
		t.Errorf("%d have moved it, and it is %s", won.Load(), l.phase())
	}
}

// preparedQuery is a query over one fake source.
func preparedQuery(t *testing.T) (*query, *sourcetest.Fake) {
	t.Helper()
	has := sourcetest.Capable()
	has.Gateable, has.OnDemand = false, false
	provider := &sourcetest.Provider{Has: has}
	e, err := New(Options{ModelDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	e.providers["function_start"] = provider
	leaf := &plan.Acquire{Stream: "function_start", Out: types.Schema{Time: 0, Fields: []types.Field{{Name: "timestamp", Type: types.Timestamp}}}}
	leaf.Settings.Unshared = true
	leaf.Partial = nil
	q, err := e.prepare(t.Context(), "", &plan.Query{Root: leaf})
	if err != nil {
		t.Fatal(err)
	}
	q.feeds[0].Unshare()
	return q, provider.Fakes()[0]
}

// TestQueryGoesThroughItsPhases follows a query from each way to its start, to its end.
func TestQueryGoesThroughItsPhases(t *testing.T) {
	for name, ready := range map[string]func(q *query) error{
		"prepared":    func(*query) error { return nil },
		"loaded":      func(q *query) error { return q.load(t.Context()) },
		"standing by": func(q *query) error { return q.standBy(t.Context()) },
	} {
		q, f := preparedQuery(t)
		if err := ready(q); err != nil {
			t.Fatal(err)
		}
		if got := q.life.phase().String(); got != name {
			t.Errorf("%s: it is %s", name, got)
		}
		if loads := f.Loads(); (loads == 1) != (name != "prepared") {
			t.Errorf("%s: loaded %d times", name, loads)
		}
		q.report(operators.Signal{Kind: operators.Suspend})
		if len(q.said) != 1 {
			t.Errorf("%s: %d signals are remembered", name, len(q.said))
		}
		if err := q.start(); err != nil {
			t.Fatal(err)
		}
		told := f.Told()
		if slices.Contains(told, "Begin") != (name == "standing by") || f.Starts() != 1 {
			t.Errorf("%s: the source was started %d times, and told %v", name, f.Starts(), told)
		}
		for what, err := range map[string]error{"load": q.load(t.Context()), "standBy": q.standBy(t.Context())} {
			if err == nil {
				t.Errorf("%s: %s was done while it ran", name, what)
			}
		}
		q.abandon() // which does nothing now
		if f.Stopped() || q.life.phase() != phaseRunning {
			t.Errorf("%s: a running query was abandoned", name)
		}
		q.end()
		<-q.done
		if !f.Stopped() || q.life.phase() != phaseDone {
			t.Errorf("%s: it is %s, and its source was stopped: %v", name, q.life.phase(), f.Stopped())
		}
		q.report(operators.Signal{Kind: operators.Resume})
		if err := q.start(); err == nil {
			t.Errorf("%s: it started twice", name)
		}
	}
}

// TestAbandonedQueryIsOver: a query that is abandoned in any phase before it runs stops
// its sources once, and cannot start.
func TestAbandonedQueryIsOver(t *testing.T) {
	for _, ready := range []func(q *query) error{
		func(*query) error { return nil },
		func(q *query) error { return q.load(t.Context()) },
		func(q *query) error { return q.standBy(t.Context()) },
	} {
		q, f := preparedQuery(t)
		if err := ready(q); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			q.abandon()
		}
		<-q.done
		if !f.Stopped() || q.life.phase() != phaseAbandoned || q.life.started() {
			t.Errorf("it is %s, and its source was stopped: %v", q.life.phase(), f.Stopped())
		}
		if err := errors.Join(q.start(), q.load(t.Context())); err == nil || f.Starts() > 1 {
			t.Errorf("it started again: %v", err)
		}
	}
}
