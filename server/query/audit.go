package query

import (
	"slices"
	"time"

	"endoscope/server/answer"
)

// auditedFunctions is the number of functions that an audit record names.
// Beyond that it has only their total number.
const auditedFunctions = 50

// recordAttached writes an audit record of what a query has attached and where,
// when it is armed or, with number 0, when it stands by.
func (q *Query) recordAttached(event string) {
	if q.Grant == nil {
		return
	}
	var streams, functions, modules, targets []string
	var pids []int
	probed := 0
	for _, f := range q.Feeds {
		streams = append(streams, f.Spec.Stream)
		if t := f.Spec.Target.String(); t != "" {
			targets = append(targets, t)
		}
		pids = append(pids, f.Spec.Target.PIDs...)
		for _, site := range f.Source.Info().Sites {
			if site.Address == 0 {
				continue
			}
			probed++
			functions, modules = append(functions, site.Function), append(modules, site.Module)
		}
	}
	functions = answer.Distinct(functions)
	slices.Sort(pids)
	q.Grant.Record(event, "query", q.ID, "statement", q.Text, "streams", answer.Distinct(streams), "targets", answer.Distinct(targets), "pids", slices.Compact(pids),
		"probes", probed, "modules", answer.Distinct(modules), "functions", functions[:min(len(functions), auditedFunctions)])
}

// recordEnd writes an audit record that nothing of a query is attached any
// more.
func (q *Query) recordEnd() {
	if q.Grant == nil || !q.Life.Started() {
		return
	}
	q.Grant.Record("ended", "query", q.ID, "after", time.Since(q.started).Round(time.Millisecond).String(),
		"rows", q.Tally.Rows.Load(), "events", q.Tally.Acquired.Load(), "lost", q.Tally.TotalLost())
}
