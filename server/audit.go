package server

import (
	"slices"
	"strings"
	"time"
)

// auditedFunctions is how many functions a record names; it says how many there
// are.
const auditedFunctions = 50

// defines reports whether a statement changes what there is for others, or stops
// something. (What it acquires is on record by itself.)
func defines(statement string) bool {
	words := strings.Fields(statement)
	return len(words) > 0 && slices.Contains([]string{"CREATE", "DROP", "STOP", "SUSPEND", "RESUME"}, strings.ToUpper(words[0]))
}

// recordAttached puts on record what a query has attached where: that it is armed,
// or, with number 0, that it stands by.
func (q *query) recordAttached(event string) {
	if q.may == nil {
		return
	}
	var streams, functions, modules, targets []string
	var pids []int
	probed := 0
	for _, f := range q.feeds {
		streams = append(streams, f.spec.Stream)
		if t := f.spec.Target.String(); t != "" {
			targets = append(targets, t)
		}
		pids = append(pids, f.spec.Target.PIDs...)
		for _, site := range f.source.Info().Sites {
			if site.Address == 0 {
				continue
			}
			probed++
			functions, modules = append(functions, site.Function), append(modules, site.Module)
		}
	}
	functions = distinct(functions)
	slices.Sort(pids)
	q.may.Record(event, "query", q.id, "statement", q.text, "streams", distinct(streams), "targets", distinct(targets), "pids", slices.Compact(pids),
		"probes", probed, "modules", distinct(modules), "functions", functions[:min(len(functions), auditedFunctions)])
}

// recordEnd puts on record that nothing of a query is attached any more.
func (q *query) recordEnd() {
	if q.may == nil || !q.life.started() {
		return
	}
	q.may.Record("ended", "query", q.id, "after", time.Since(q.started).Round(time.Millisecond).String(),
		"rows", q.t.rows.Load(), "events", q.t.acquired.Load(), "lost", q.t.totalLost())
}
