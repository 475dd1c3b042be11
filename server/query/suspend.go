package query

import (
	"maps"
	"slices"

	"endoscope/operators"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/flow"
)

// Suspended is the set of what a session has suspended. The zero value is
// empty.
type Suspended struct {
	All     bool
	Threads map[string]bool // by name
}

// Signals returns the signals that suspend the same in operators.
func (q Suspended) Signals() []operators.Signal {
	var out []operators.Signal
	if q.All {
		out = append(out, operators.Signal{Kind: operators.Suspend})
	}
	for _, name := range slices.Sorted(maps.Keys(q.Threads)) {
		out = append(out, operators.Signal{Kind: operators.Suspend, Thread: name})
	}
	return out
}

// Report passes a SUSPEND or RESUME to the operators, after the events that
// preceded it. What sources have aggregated so far precedes it.
func (q *Query) Report(s operators.Signal) {
	q.reports.Lock()
	defer q.reports.Unlock()
	switch {
	case q.Life.May(stepRemember):
		q.PendingSignals = append(q.PendingSignals, s)
	case q.Life.May(stepReport):
		for _, f := range q.collector.sources {
			_ = f.Control(probes.Collect{}) // the source's End reports the error
		}
		q.pushAll(s)
	}
}

// SuspendSources passes the suspended set to the sources that can suspend.
func (q *Query) SuspendSources(now Suspended) {
	tracked := plan.Tracked(q.Plan.Root)
	for _, f := range q.Feeds {
		if f.Info.Suspends && tracked[f.Spec] {
			// A source that cannot suspend continues, and the operators drop
			// its rows.
			_ = f.Control(probes.Suspend{All: now.All, Threads: slices.Sorted(maps.Keys(now.Threads))})
		}
	}
}

// takeSignals returns the signals that were not pushed yet, and forgets them.
func (q *Query) takeSignals() []operators.Signal {
	q.reports.Lock()
	defer q.reports.Unlock()
	out := q.PendingSignals
	q.PendingSignals = nil
	return out
}

// pushAll pushes a signal to all leaves except those that read the engine's own
// state.
func (q *Query) pushAll(s operators.Signal) {
	for _, f := range q.Feeds {
		if c := catalog.Find(f.Spec.Stream); c == nil || c.Kind != catalog.Snapshot {
			q.queue.Push(flow.Item{Leaf: f.Leaf, Signal: s}, false)
		}
	}
}

// Nameless reports whether a query has no thread names by which to suspend.
func (q *Query) Nameless() bool {
	return slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool {
		return plan.ThreadColumn(f.Spec) < 0 || f.Aggregates()
	})
}
