package approx

import (
	"endoscope/operators/estimate"
)

// Places are the exposures of the places of a query or of a window.
type Places struct {
	// Loose: an event may belong to any group, whatever its place. So a group is exact only
	// if all places were observed all the time.
	Loose bool

	number map[int64]int
	sliced bool // a place was observed in slices
	list   []estimate.Exposure
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

// SetWhole sets the progress in all the time in which a place was observed in slices only,
// and the part of it that may have been lost in these, if they were all of the time.
func (p *Places) SetWhole(place int, whole, lost float64) {
	e := &p.list[place]
	e.Whole = whole
	if whole > 0 {
		p.sliced = true
		e.Slowdown = lost / whole
	}
}
