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
	list   []estimate.Exposure
	// censored has, by place and replicate, how many calls in slices did not end in time.
	censored map[int]*[estimate.Replicates]float64
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

// AddSeen adds the progress in slices of a replicate, and the number of calls in them that did
// not end in time.
func (p *Places) AddSeen(place, replicate int, progress, censored float64) {
	p.list[place].Seen[replicate] += progress
	if censored == 0 {
		return
	}
	if p.censored == nil {
		p.censored = map[int]*[estimate.Replicates]float64{}
	}
	if p.censored[place] == nil {
		p.censored[place] = new([estimate.Replicates]float64)
	}
	p.censored[place][replicate] += censored
}

// SetWhole sets the progress in all the time in which a place was observed in slices, that
// times the slowdown and times the speedup.
func (p *Places) SetWhole(place int, whole, slow, fast float64) {
	e := &p.list[place]
	p.sliced = true
	e.Whole, e.Slowdown, e.Speedup = whole, slow/whole, fast/whole
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
