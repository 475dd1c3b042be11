package gating

import (
	"math"
	"slices"
	"time"
)

// ticks learns what the samples of a query's inputs take of this process' time, beside
// what is expected: to wake for one, and to wake those who get its rows, takes from 30 to
// 100 µs on the machines that were measured, by how deep their processors sleep. When a
// plan takes the place of another which samples much more or less, what the process uses
// changes by just that much, and by what else happens: the median of some changes counts.
type ticks struct {
	// In the last interval, ns per second: what was used, and was to be for samples, and
	// for the rows of other inputs.
	was, expected, others float64
	valid                 bool
	ratios                []float64 // of the last changes, to what was expected
}

const (
	leastInterval = 200 * time.Millisecond
	leastChange   = 1e6 // ns per second: 0.1 % of a CPU
	fewRatios     = 5   // and no more is taken to be chance
	manyRatios    = 15
	// The figure is wrong by no more than this.
	leastRatio, mostRatio = 0.25, 4
)

// observe takes in an interval of one plan in which the process used so much, and samples
// were to take so much of it, and rows of other inputs, all in ns per second.
func (t *ticks) observe(d time.Duration, used, expected, others float64) {
	if d < leastInterval {
		return
	}
	change, beside := expected-t.expected, others-t.others
	if clear := max(leastChange, max(expected, t.expected)/2, 2*math.Abs(beside)); t.valid && math.Abs(change) >= clear {
		t.ratios = append(t.ratios, (used-t.was-beside)/change)
		t.ratios = t.ratios[max(0, len(t.ratios)-manyRatios):]
	}
	t.was, t.expected, t.others, t.valid = used, expected, others, true
}

// ratio is what samples take, as a multiple of what is expected.
func (t *ticks) ratio() float64 {
	if len(t.ratios) < fewRatios {
		return 1
	}
	sorted := slices.Sorted(slices.Values(t.ratios))
	return min(mostRatio, max(leastRatio, sorted[len(sorted)/2]))
}
