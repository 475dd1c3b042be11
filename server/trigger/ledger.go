package trigger

import (
	"sync"

	"endoscope/server/flow"
	"endoscope/server/query"
)

// ledger sums the losses and counts of a trigger's queries: its own, and those
// that its actions run or ran.
type ledger struct {
	mu   sync.Mutex
	sum  *flow.Tally // of the queries that have ended
	open map[*query.Query]bool
}

func NewLedger() *ledger { return &ledger{sum: flow.NewTally(), open: map[*query.Query]bool{}} }

// enter adds a query that begins.
func (l *ledger) enter(q *query.Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[q] = true
}

// settle adds the counts of a query that has ended.
func (l *ledger) settle(q *query.Query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[q] {
		delete(l.open, q)
		l.sum.Merge(q.Tally)
	}
}

// total returns the sum so far.
func (l *ledger) total() *flow.Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := flow.NewTally()
	out.Merge(l.sum)
	for q := range l.open {
		out.Merge(q.Tally)
	}
	return out
}
