package server

import (
	"endoscope/server/export"
	"endoscope/server/query"
	"endoscope/server/trigger"
)

// totals are sums over queries that have ended.
type totals struct{ queries, rows, events, lost uint64 }

func (t *totals) add(q *query.Query) {
	t.queries++
	t.rows += q.Tally.Rows.Load()
	t.events += q.Tally.Acquired.Load() + q.Tally.Groups.Load()
	t.lost += q.Tally.TotalLost()
}

// Stats is the engine's current activity and its totals.
type Stats struct {
	Queries  int    // running ones, including those of triggers
	Triggers int    // that have not ended
	Exports  int    // that have not been dropped
	Probes   int    // probed places in programs
	Started  uint64 // queries since the engine was created
	Rows     uint64 // sent to clients
	Events   uint64 // taken from probes, samplers and files
	Lost     uint64 // events that yielded no row, as counted by the queries
}

// Stats returns the figures of all sessions. It is safe for concurrent use.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	sum := e.totals
	s := Stats{Queries: len(e.queries), Triggers: e.triggers.Count(), Exports: len(e.exports.List())}
	for _, q := range e.queries {
		sum.add(q)
	}
	e.mu.Unlock()
	s.Started, s.Rows, s.Events, s.Lost = sum.queries, sum.rows, sum.events, sum.lost
	s.Probes = len(e.uprobes.Probes())
	return s
}

// Expel ends the triggers and exports of a user.
func (e *Engine) Expel(user string) {
	var theirs []*trigger.Trigger
	for _, t := range e.triggers.List() {
		if t.Owner == user {
			theirs = append(theirs, t)
			t.Drop()
		}
	}
	for _, t := range theirs {
		<-t.Over
		e.triggers.Leave(t, nil)
		_, _ = e.kept.Drop("trigger", t.Plan.Key) // no session is left to report an error to
	}
	for _, key := range e.exports.RemoveAll(func(x *export.Export) bool { return x.Owner == user }) {
		_, _ = e.kept.Drop("export", key)
	}
}
