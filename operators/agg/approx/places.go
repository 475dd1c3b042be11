package approx

import (
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
)

// Sources and estimates have the same number of replicates.
var _ [estimate.Replicates]struct{} = [plan.Replicates]struct{}{}

// Places are the exposures of the places of a query or of a window.
type Places struct {
	// Loose: an event may belong to any group, whatever its place. So a group is exact only
	// if all places were observed all the time.
	Loose bool

	number map[int64]int
	sliced bool // a place was observed in slices
	// censored are the places with calls in slices that did not end in time.
	censored []bool
	list     []estimate.Exposure
}

// Number returns the index of a place.
func (p *Places) Number(place int64) int {
	if i, ok := p.number[place]; ok {
		return i
	}
	if p.number == nil {
		p.number = map[int64]int{}
	}
	p.number[place] = len(p.list)
	p.list = append(p.list, estimate.Exposure{})
	return len(p.list) - 1
}

// AddSeen adds the progress in slices of a replicate.
func (p *Places) AddSeen(place, replicate int, progress float64) {
	p.list[place].Seen[replicate] += progress
}

// SetWhole sets the progress in all the time in which a place was observed in slices, that
// times the slowdown and times the speedup, and the number of calls in slices that did not
// end in time.
func (p *Places) SetWhole(place int, whole, slow, fast, censored float64) {
	e := &p.list[place]
	p.sliced = true
	e.Whole, e.Slowdown, e.Speedup = whole, slow/whole, fast/whole
	for len(p.censored) < len(p.list) {
		p.censored = append(p.censored, false)
	}
	p.censored[place] = censored > 0
}

// Unseen returns the number of places that were observed in slices, and had too few for an
// interval of anything.
func (p *Places) Unseen() (n int) {
	for i := range p.list {
		if e := &p.list[i]; e.Whole > 0 && !e.Looked() {
			n++
		}
	}
	return n
}

// isCensored reports whether calls of a place are missing that took long.
func (p *Places) isCensored(place int) bool { return place < len(p.censored) && p.censored[place] }
