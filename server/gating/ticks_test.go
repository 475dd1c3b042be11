package gating

import (
	"math"
	"testing"
	"time"
)

// The cost of samples is learned when a plan replaces another that samples more
// or less, whatever else the process does.
func TestTicks(t *testing.T) {
	var x ticks
	see := func(expected, ratio, others float64, d time.Duration) {
		x.observe(d, expected*ratio+others, expected, 0)
	}
	const much, little = 40e6, 3e6
	for i, plan := range []float64{much, little, much, little} {
		if see(plan, 0.6, 12e6, time.Second); x.ratio() != 1 {
			t.Errorf("after %d intervals it is %v", i+1, x.ratio())
		}
	}
	see(much, 0.6, 300e6, time.Second) // an unrelated change
	see(little, 0.6, 12e6, time.Second)
	see(much, 5, 12e6, 10*time.Millisecond) // too short to measure
	see(much, 0.6, 12e6, time.Second)
	see(much, 0.6, 90e6, time.Second) // the same plan
	see(much, 0.6, 12e6, time.Second)
	see(little, 0.6, 12e6, time.Second)
	if got := x.ratio(); math.Abs(got-0.6) > 1e-9 {
		t.Errorf("%v, want 0.6", got)
	}
	for range manyRatios { // the rows of other inputs hide the cost of samples
		x.observe(time.Second, much+100e6, much, 100e6)
		x.observe(time.Second, little, little, 0)
	}
	if got := x.ratio(); math.Abs(got-0.6) > 1e-9 {
		t.Errorf("beside many rows of others: %v, want 0.6", got)
	}
	for range manyRatios { // they do not hide it, being few
		x.observe(time.Second, 0.5*much+10e6, much, 10e6)
		x.observe(time.Second, 0.5*little, little, 0)
	}
	if got := x.ratio(); math.Abs(got-0.5) > 1e-9 {
		t.Errorf("beside few rows of others: %v, want 0.5", got)
	}
	for range manyRatios { // the cost has changed
		see(much, 1.5, 12e6, time.Second)
		see(little, 1.5, 12e6, time.Second)
	}
	if got := x.ratio(); math.Abs(got-1.5) > 1e-9 {
		t.Errorf("%v, want 1.5", got)
	}
	for range manyRatios {
		see(much, 100, 0, time.Second)
		see(little, 100, 0, time.Second)
	}
	if x.ratio() != mostRatio {
		t.Errorf("%v, want at most %v", x.ratio(), mostRatio)
	}
}
