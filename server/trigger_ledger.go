package server

import "sync"

// ledger adds up what the queries of a trigger lost and counted: its own, and
// those that its actions have run and run.
type ledger struct {
	mu   sync.Mutex
	sum  *tally // of those that have ended
	open map[*query]bool
}

func newLedger() *ledger { return &ledger{sum: newTally(), open: map[*query]bool{}} }

// enter adds a query that begins.
func (l *ledger) enter(q *query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[q] = true
}

// settle adds up a query that has ended.
func (l *ledger) settle(q *query) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[q] {
		delete(l.open, q)
		l.sum.merge(q.t)
	}
}

// total is what there is so far.
func (l *ledger) total() *tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := newTally()
	out.merge(l.sum)
	for q := range l.open {
		out.merge(q.t)
	}
	return out
}

// merge adds what another tally lost and counted.
func (t *tally) merge(other *tally) {
	for _, l := range other.losses() {
		t.addLost(l.Cause, l.N)
	}
	for _, l := range other.counts() {
		t.addNoted(l.Cause, l.N)
	}
}
