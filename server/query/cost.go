package query

import (
	"slices"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/server/flow"
)

// Cost returns the CPU time that the sources have cost so far: their events as counted, at
// the prices measured on this machine, and what they have measured themselves. Of a shared
// source it is all since the query began.
func (q *Query) Cost() (sum time.Duration) {
	if !q.Life.Started() {
		return 0
	}
	for i, f := range q.Feeds {
		st := f.Source.Stats()
		rows := time.Duration(float64(f.Rows.Load()) * st.Prices[plan.NoGate].Row)
		sum += st.Spent - min(q.before[i], st.Spent) + rows
	}
	return sum
}

// Overhead returns what the query takes of the program's CPU time, if it has a budget.
func (q *Query) Overhead() (share float64) {
	if !q.Life.Started() {
		return 0
	}
	for _, f := range q.Feeds {
		share = max(share, f.Source.Stats().Overhead)
	}
	return share
}

// samples reports whether the query gives rows of a sample of the calls.
func (q *Query) samples() bool {
	return slices.ContainsFunc(q.Feeds, func(f *flow.Feed) bool { return f.Spec.Samples() })
}

// readBefore remembers what shared sources have cost before the query joins them, and the
// CPU time that the program has used.
func (q *Query) readBefore() {
	if len(q.Feeds) > 0 {
		q.ticks, _ = process.CPUTicks(q.Feeds[0].Spec.Target.PIDs)
	}
	q.before = make([]time.Duration, len(q.Feeds))
	for i, f := range q.Feeds {
		if f.Part != nil {
			q.before[i] = f.Source.Stats().Spent
		}
	}
}
