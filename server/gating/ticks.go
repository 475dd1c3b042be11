package gating

import (
	"math"
	"slices"
	"time"
)

// ticks estimates the processor time that samples of a query's inputs cost this
// process, relative to the expected time: to wake for a sample, and to wake the
// consumers of its rows, takes from 30 to 100 µs on the machines that were
// measured, depending on how deep their processors sleep. When one plan
// replaces another that samples much more or less, the process' usage changes
// by that amount and by unrelated effects: the median of several changes is
// used.
type ticks struct {
	// In the last interval, ns per second: processor time used, expected for
	// samples, and expected for the rows of other inputs.
	was, expected, others float64
	valid                 bool
	ratios                []float64 // of the last changes, relative to the expected change
}

const (
	leastInterval = 200 * time.Millisecond
	leastChange   = 1e6 // ns per second: 0.1 % of a CPU
	fewRatios     = 5   // from so many the median is trusted
	manyRatios    = 15
	// The estimate is clamped to these bounds.
	leastRatio, mostRatio = 0.25, 4
)

// observe records an interval under one plan: the processor time used, and that
// expected for samples and for rows of other inputs, all in ns per second.
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

// ratio returns the cost of samples, as a multiple of the expected cost.
func (t *ticks) ratio() float64 {
	if len(t.ratios) < fewRatios {
		return 1
	}
	sorted := slices.Sorted(slices.Values(t.ratios))
	return min(mostRatio, max(leastRatio, sorted[len(sorted)/2]))
}
