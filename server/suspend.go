package server

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"endoscope/operators"
	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/answer"
	"endoscope/server/flow"
	"endoscope/server/wire"
)

// quiet is of what a session has suspended reporting. The zero value is nothing.
type quiet struct {
	all     bool
	threads map[string]bool // by name
}

// signals say it to operators.
func (q quiet) signals() []operators.Signal {
	var out []operators.Signal
	if q.all {
		out = append(out, operators.Signal{Kind: operators.Suspend})
	}
	for _, name := range slices.Sorted(maps.Keys(q.threads)) {
		out = append(out, operators.Signal{Kind: operators.Suspend, Thread: name})
	}
	return out
}

// suspend runs SUSPEND and RESUME: they concern the session's queries, those that
// run and those that begin later. What is CONSISTENT goes on to be tracked.
func (s *session) suspend(thread *parser.Literal, yes bool) wire.Result {
	signal := operators.Signal{Kind: operators.Resume}
	what, how := "reporting", "resumed"
	if yes {
		signal.Kind, how = operators.Suspend, "suspended"
	}
	if thread != nil {
		signal.Thread = thread.Str
		what = "reporting of thread " + thread.Str
	}
	s.mu.Lock()
	switch {
	case thread == nil:
		s.quiet.all = yes
	case yes:
		if s.quiet.threads == nil {
			s.quiet.threads = map[string]bool{}
		}
		s.quiet.threads[thread.Str] = true
	default:
		delete(s.quiet.threads, thread.Str)
	}
	quiet := quiet{s.quiet.all, maps.Clone(s.quiet.threads)}
	open := make([]*query, 0, len(s.open))
	for q := range s.open {
		open = append(open, q)
	}
	s.mu.Unlock()
	slices.SortFunc(open, func(a, b *query) int { return int(a.id - b.id) })
	r := answer.Messagef("%s %s", what, how)
	var deaf []string
	for _, q := range open {
		q.report(signal)
		q.suspendSources(quiet)
		if yes && thread != nil && q.nameless() {
			deaf = append(deaf, fmt.Sprint(q.id))
		}
	}
	if len(deaf) > 0 {
		r.Notices = append(r.Notices, fmt.Sprintf("query %s does not read thread_name, and goes on to report all threads", strings.Join(deaf, ", ")))
	}
	return r
}

// report tells a query's operators of a SUSPEND or RESUME, behind what happened
// before it. What sources have aggregated until then is of before.
func (q *query) report(s operators.Signal) {
	q.reports.Lock()
	defer q.reports.Unlock()
	switch {
	case q.life.may(stepRemember):
		q.said = append(q.said, s)
	case q.life.may(stepReport):
		for _, f := range q.collector.sources {
			_ = f.Control(probes.Collect{}) // why it could not, the end of the source says
		}
		q.pushAll(s)
	}
}

// suspendSources tells sources that a query tracks what of it is not reported.
func (q *query) suspendSources(now quiet) {
	tracked := plan.Tracked(q.plan.Root)
	for _, f := range q.feeds {
		if f.Info.Suspends && tracked[f.Spec] {
			// A source that cannot suspend goes on, and the operators leave out the rest.
			_ = f.Control(probes.Suspend{All: now.all, Threads: slices.Sorted(maps.Keys(now.threads))})
		}
	}
}

// taken are the signals that were not pushed yet.
func (q *query) taken() []operators.Signal {
	q.reports.Lock()
	defer q.reports.Unlock()
	out := q.said
	q.said = nil
	return out
}

// pushAll has all leaves get a signal, but those that tell of the engine itself.
func (q *query) pushAll(s operators.Signal) {
	for _, f := range q.feeds {
		if c := catalog.Find(f.Spec.Stream); c == nil || c.Kind != catalog.Snapshot {
			q.q.Push(flow.Item{Leaf: f.Leaf, Signal: s}, false)
		}
	}
}

// nameless reports whether a query cannot tell threads by their names.
func (q *query) nameless() bool {
	return slices.ContainsFunc(q.feeds, func(f *flow.Feed) bool {
		return plan.ThreadColumn(f.Spec) < 0 || f.Aggregates()
	})
}
