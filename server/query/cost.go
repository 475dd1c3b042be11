package query

import (
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
)

// cost returns the CPU time that the sources have cost so far: their events as counted, at
// the prices measured on this machine, and what they have measured themselves. Of a shared
// source it is all since the query began.
func (q *Query) cost() (sum time.Duration) {
	if !q.Life.Started() {
		return 0
	}
	for i, f := range q.Feeds {
		st, before := f.Source.Stats(), q.before[i]
		price := st.Prices[plan.NoGate]
		shut := float64(st.Shut - min(before.Shut, st.Shut))
		ns := (float64(st.Events-min(before.Events, st.Events))-shut)*price.Open + shut*price.Shut +
			float64(st.Awaited-min(before.Awaited, st.Awaited))*price.Return + float64(f.Rows.Load())*price.Row
		sum += st.Spent - min(before.Spent, st.Spent) + time.Duration(ns)
	}
	return sum
}

// readBefore remembers what shared sources have cost before the query joins them.
func (q *Query) readBefore() {
	q.before = make([]probes.Stats, len(q.Feeds))
	for i, f := range q.Feeds {
		if f.Part != nil {
			q.before[i] = f.Source.Stats()
		}
	}
}
