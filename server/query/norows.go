package query

import (
	"fmt"

	"endoscope/planner/catalog"
	"endoscope/probes"
	"endoscope/probes/process"
)

// whyNothing returns why a query that observes a program has found nothing; "" if it has
// found something, or if its other remarks say why.
func (q *Query) whyNothing() string {
	if q.Tally.Rows.Load() > 0 && q.Tally.Acquired.Load()+q.Tally.Groups.Load() > 0 {
		return ""
	}
	if n := q.Tally.Acquired.Load(); n > 0 {
		return fmt.Sprintf("nothing found: none of the %d rows acquired satisfies the conditions", n)
	}
	for _, f := range q.Feeds {
		stream := catalog.Find(f.Spec.Stream)
		switch {
		case stream == nil || !stream.Functions:
		case f.Source.Stats().Spent == 0:
			return q.notCalled(probed(f.Source.Info()))
		case q.Tally.Groups.Load() == 0:
			return "nothing found: the functions were called, but no call that has ended satisfies the conditions"
		}
	}
	return ""
}

// probed returns the names of the functions of a source.
func probed(i probes.Info) map[string]bool {
	names := map[string]bool{}
	for _, site := range i.Sites {
		if site.Address != 0 {
			names[site.Function] = true
		}
	}
	return names
}

// notCalled says that none of the functions was called.
func (q *Query) notCalled(names map[string]bool) string {
	text := fmt.Sprintf("nothing found: none of the %d probed functions was called", len(names))
	if len(names) == 1 {
		for name := range names {
			text = fmt.Sprintf("nothing found: %s was not called", name)
		}
	}
	for _, c := range q.Tally.Counts() {
		if c.Cause == probes.Unobserved {
			return text + "; SET follow = 'children' observes child processes, too"
		}
	}
	if pids := q.Feeds[0].Spec.Target.PIDs; len(pids) > 0 {
		if now, ok := process.CPUTicks(pids); ok && now == q.ticks {
			return text + ": the program was idle"
		}
	}
	return text
}
