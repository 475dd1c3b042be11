package placement

import (
	"math"
	"time"

	"endoscope/planner/cost"
)

// pace watches what operators' moves to the client make of a query that waits for it.
//
// What the client does counts for nothing among the costs (EndoScope, section 5.2),
// and a live source does not wait for it. But a file is read no faster than its rows
// are taken: if that gets slower when operators have moved to the client, they were
// better off here, and stay until what is done here has become dearer.
type pace struct {
	rows uint64  // of the query, but for those that wait for the client, at the last evaluation
	rate float64 // rows a second before that

	from   division // of the move that is watched
	before float64  // rows a second, then; 0: none is watched
	since  int      // evaluations

	slow   division // was slower; none where dearer is 0
	dearer float64  // what a row must cost here for the move to be tried again, ns
}

const (
	// slower is what share of the rows a second before a move is too little after it.
	slower = 0.95
	// filled is after how many evaluations a move tells: what is on the way to the
	// client, and not counted anywhere, is as much as it will be by then.
	filled = 2
	// dear is by how much dearer the work here must have become.
	dear = 1.25
)

// observe notes that so many rows were done with, or taken by the client, when another
// d had gone by.
func (p *pace) observe(rows uint64, d time.Duration) {
	p.rate = (float64(rows) - float64(p.rows)) / d.Seconds()
	p.rows = rows
	if p.before > 0 {
		p.since++
	}
}

// watch begins to watch a move to the client.
func (p *pace) watch(from division) { p.from, p.before, p.since = from, p.rate, 0 }

// disappoints reports whether the move to at that is watched made the query slower:
// then it is to go back.
func (p *pace) disappoints(at division) (back division, ok bool) {
	if p.before == 0 || p.since < filled {
		return at, false
	}
	ok = at < p.from && p.rate < slower*p.before
	p.before = 0
	return p.from, ok
}

// refuse has a division left out, at what a row costs here without it.
func (p *pace) refuse(d division, here float64) { p.slow, p.dearer = d, dear*here }

// leaveOut makes divisions that were slower too dear, while a row costs no more here
// than it did, or but little.
func (p *pace) leaveOut(ds []division, at division, costs []float64, here float64) {
	if p.dearer == 0 || here > p.dearer {
		p.dearer = 0
		return
	}
	for i, d := range ds {
		if d <= p.slow && d < at {
			costs[i] = math.Inf(1)
		}
	}
}

// perRow is what a row costs, ns.
func perRow(c cost.Placement) float64 {
	if c.In == 0 {
		return 0
	}
	return c.Cost() / c.In
}
