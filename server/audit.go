package server

import (
	"slices"
	"time"

	"endoscope/parser"
	"endoscope/server/answer"
)

// auditedFunctions is how many functions a record names; it says how many there
// are.
const auditedFunctions = 50

// recordStatement records a statement that was refused, or that changed what is defined
// or how queries run. stmt is nil if the text does not parse. What a statement acquires
// is recorded with its query.
func (s *session) recordStatement(stmt parser.Statement, text string, err error) {
	if err != nil {
		s.may.Record("refused", "statement", text, "error", err.Error())
		return
	}
	if c := parser.Classify(stmt); c.Changes {
		s.may.Record("executed", "kind", c.Kind, "statement", text)
	}
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
	q.may.Record(event, "query", q.id, "statement", q.text, "streams", answer.Distinct(streams), "targets", answer.Distinct(targets), "pids", slices.Compact(pids),
		"probes", probed, "modules", answer.Distinct(modules), "functions", functions[:min(len(functions), auditedFunctions)])
}

// recordEnd puts on record that nothing of a query is attached any more.
func (q *query) recordEnd() {
	if q.may == nil || !q.life.started() {
		return
	}
	q.may.Record("ended", "query", q.id, "after", time.Since(q.started).Round(time.Millisecond).String(),
		"rows", q.t.Rows.Load(), "events", q.t.Acquired.Load(), "lost", q.t.TotalLost())
}
