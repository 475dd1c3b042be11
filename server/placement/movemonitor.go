package placement

import (
	"math"
	"time"

	"endoscope/planner/cost"
)

// moveMonitor monitors how moves of operators to the client affect a query that waits
// for its client.
//
// The client's processor time is not part of the costs (EndoScope, section
// 5.2), and a live source does not wait for the client. But a file is read no
// faster than its rows are taken. If that becomes slower after operators moved
// to the client, they move back, and stay until executing them here has become
// more expensive.
type moveMonitor struct {
	rows uint64  // of the query, without those that wait for the client, at the last evaluation
	rate float64 // rows per second in the interval before that

	from   division // of the monitored move
	before float64  // rows per second before the move; 0: no move is monitored
	since  int      // number of evaluations since the move

	slow      division // the division that was slower; none if retryCost is 0
	retryCost float64  // cost of a row here from which the move is tried again, ns
}

const (
	// slowRatio is the ratio of the rates after and before a move below which the
	// move is undone.
	slowRatio = 0.95
	// settledAfter is the number of evaluations after which a move is judged: by then
	// the rows on the way to the client, which are not counted anywhere, are as
	// many as they will be.
	settledAfter = 2
	// retryFactor is the factor by which the cost here must have grown.
	retryFactor = 1.25
)

// observe records, after an interval d, how many rows in all were completed or
// taken by the client.
func (p *moveMonitor) observe(rows uint64, d time.Duration) {
	p.rate = (float64(rows) - float64(p.rows)) / d.Seconds()
	p.rows = rows
	if p.before > 0 {
		p.since++
	}
}

// watch starts to monitor a move to the client.
func (p *moveMonitor) watch(from division) { p.from, p.before, p.since = from, p.rate, 0 }

// madeSlower reports whether the monitored move to `at` made the query slower;
// if so it returns the division to go back to.
func (p *moveMonitor) madeSlower(at division) (back division, ok bool) {
	if p.before == 0 || p.since < settledAfter {
		return at, false
	}
	ok = at < p.from && p.rate < slowRatio*p.before
	p.before = 0
	return p.from, ok
}

// refuse excludes a division; here is the cost of a row here without it.
func (p *moveMonitor) refuse(d division, here float64) { p.slow, p.retryCost = d, retryFactor*here }

// leaveOut excludes the divisions that were slower by an infinite cost, unless
// the cost of a row here has grown enough.
func (p *moveMonitor) leaveOut(ds []division, at division, costs []float64, here float64) {
	if p.retryCost == 0 || here > p.retryCost {
		p.retryCost = 0
		return
	}
	for i, d := range ds {
		if d <= p.slow && d < at {
			costs[i] = math.Inf(1)
		}
	}
}

// perRow returns the cost of a row, in ns.
func perRow(c cost.Placement) float64 {
	if c.In == 0 {
		return 0
	}
	return c.Cost() / c.In
}
