package server

import (
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

// Stats is what the engine does and has done.
type Stats struct {
	Queries  int    // that run, those of triggers included
	Triggers int    // that have not ended
	Probes   int    // places in programs that are probed
	Started  uint64 // queries, since the engine was made
	Rows     uint64 // given to clients
	Events   uint64 // taken from probes, samplers and files
	Lost     uint64 // events that became no row, as every query counted them
}

// Stats tells of all sessions. It is safe for concurrent use.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	sum := e.totals
	s := Stats{Queries: len(e.queries), Triggers: e.triggers.Count()}
	for _, q := range e.queries {
		sum.add(q)
	}
	e.mu.Unlock()
	s.Started, s.Rows, s.Events, s.Lost = sum.queries, sum.rows, sum.events, sum.lost
	s.Probes = len(e.uprobes.Probes())
	return s
}

// Expel ends the triggers that a user has made.
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
		_, _ = e.kept.Drop("trigger", t.Plan.Name) // nobody is there to be told
	}
}
