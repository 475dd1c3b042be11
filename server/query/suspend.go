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

// Suspended is of what a session has suspended reporting. The zero value is nothing.
type Suspended struct {
	All     bool
	Threads map[string]bool // by name
}

// Signals say it to operators.
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

// Report tells a query's operators of a SUSPEND or RESUME, behind what happened
// before it. What sources have aggregated until then is of before.
func (q *Query) Report(s operators.Signal) {
	q.reports.Lock()
	defer q.reports.Unlock()
	switch {
	case q.Life.May(stepRemember):
		q.PendingSignals = append(q.PendingSignals, s)
	case q.Life.May(stepReport):
		for _, f := range q.collector.sources {
			_ = f.Control(probes.Collect{}) // why it could not, the end of the source says
		}
		q.pushAll(s)
	}
}

// SuspendSources tells sources that a query tracks what of it is not reported.
func (q *Query) SuspendSources(now Suspended) {
	tracked := plan.Tracked(q.Plan.Root)
	for _, f := range q.Feeds {
		if f.Info.Suspends && tracked[f.Spec] {
			// A source that cannot suspend goes on, and the operators leave out the rest.
			_ = f.Control(probes.Suspend{All: now.All, Threads: slices.Sorted(maps.Keys(now.Threads))})
		}
	}
}

// takeSignals are the signals that were not pushed yet.
func (q *Query) takeSignals() []operators.Signal {
	q.reports.Lock()
	defer q.reports.Unlock()
	out := q.PendingSignals
	q.PendingSignals = nil
	return out
}

// pushAll has all leaves get a signal, but those that tell of the engine itself.
func (q *Query) pushAll(s operators.Signal) {
	for _, f := range q.Feeds {
		if c := catalog.Find(f.Spec.Stream); c == nil || c.Kind != catalog.Snapshot {
			q.queue.Push(flow.Item{Leaf: f.Leaf, Signal: s}, false)
		}
	}
}

// Nameless reports whether a query cannot tell threads by their names.
func (q *Query) Nameless() bool {
	return slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool {
		return plan.ThreadColumn(f.Spec) < 0 || f.Aggregates()
	})
}
