package server

import (
	"errors"
	"slices"
	"testing"

	"endoscope/operators"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/sourcetest"
	"endoscope/server/query"
)

// preparedQuery is a query over one fake source.
func preparedQuery(t *testing.T) (*query.Query, *sourcetest.Fake) {
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
	q.Feeds[0].Unshare()
	return q, provider.Fakes()[0]
}

// TestQueryGoesThroughItsPhases follows a query from each way to its start, to its end.
func TestQueryGoesThroughItsPhases(t *testing.T) {
	for name, ready := range map[string]func(q *query.Query) error{
		"prepared":    func(*query.Query) error { return nil },
		"loaded":      func(q *query.Query) error { return q.Load(t.Context()) },
		"standing by": func(q *query.Query) error { return q.StandBy(t.Context()) },
	} {
		q, f := preparedQuery(t)
		if err := ready(q); err != nil {
			t.Fatal(err)
		}
		if got := q.Life.Phase().String(); got != name {
			t.Errorf("%s: it is %s", name, got)
		}
		if loads := f.Loads(); (loads == 1) != (name != "prepared") {
			t.Errorf("%s: loaded %d times", name, loads)
		}
		q.Report(operators.Signal{Kind: operators.Suspend})
		if len(q.PendingSignals) != 1 {
			t.Errorf("%s: %d signals are remembered", name, len(q.PendingSignals))
		}
		if err := q.Start(); err != nil {
			t.Fatal(err)
		}
		told := f.Received()
		if slices.Contains(told, "Begin") != (name == "standing by") || f.Starts() != 1 {
			t.Errorf("%s: the source was started %d times, and told %v", name, f.Starts(), told)
		}
		for what, err := range map[string]error{"load": q.Load(t.Context()), "standBy": q.StandBy(t.Context())} {
			if err == nil {
				t.Errorf("%s: %s was done while it ran", name, what)
			}
		}
		q.Abandon() // which does nothing now
		if f.Stopped() || q.Life.Phase() != query.PhaseRunning {
			t.Errorf("%s: a running query was abandoned", name)
		}
		q.End()
		<-q.Done
		if !f.Stopped() || q.Life.Phase() != query.PhaseDone {
			t.Errorf("%s: it is %s, and its source was stopped: %v", name, q.Life.Phase(), f.Stopped())
		}
		q.Report(operators.Signal{Kind: operators.Resume})
		if err := q.Start(); err == nil {
			t.Errorf("%s: it started twice", name)
		}
	}
}

// TestAbandonedQueryIsOver: a query that is abandoned in any phase before it runs stops
// its sources once, and cannot start.
func TestAbandonedQueryIsOver(t *testing.T) {
	for _, ready := range []func(q *query.Query) error{
		func(*query.Query) error { return nil },
		func(q *query.Query) error { return q.Load(t.Context()) },
		func(q *query.Query) error { return q.StandBy(t.Context()) },
	} {
		q, f := preparedQuery(t)
		if err := ready(q); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			q.Abandon()
		}
		<-q.Done
		if !f.Stopped() || q.Life.Phase() != query.PhaseAbandoned || q.Life.Started() {
			t.Errorf("it is %s, and its source was stopped: %v", q.Life.Phase(), f.Stopped())
		}
		if err := errors.Join(q.Start(), q.Load(t.Context())); err == nil || f.Starts() > 1 {
			t.Errorf("it started again: %v", err)
		}
	}
}
