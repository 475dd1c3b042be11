package cost

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds" // the same cases in every run
)

// spent returns the cost of a rental over closed times, each given by the total cost of its
// traps, and the cost of the best choice for each.
func spent(flip float64, times []float64) (ns, best float64) {
	var r Rental
	for _, whole := range times {
		if limit := r.Limit(flip); whole < limit {
			ns += whole
		} else {
			ns += limit + flip
		}
		best += min(whole, flip)
		r.Ended(whole)
	}
	return ns, best
}

func TestRental(t *testing.T) {
	for _, c := range []struct {
		name  string
		whole float64 // flip is 1
		times int
		most  float64 // times the best
	}{
		{"one, long", 9, 1, 2},
		{"long ones", 9, 100, 1.26},
		{"short ones", 0.9, 100, 1},
		{"hardly long ones", 1.1, 100, 1.26},
	} {
		times := make([]float64, c.times)
		for i := range times {
			times[i] = c.whole
		}
		if ns, best := spent(1, times); ns > c.most*best {
			t.Errorf("%s: %v, the best is %v", c.name, ns, best)
		}
	}
}

// The bound holds for any input.
func TestRentalIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		flip := rapid.Float64Range(1, 1e7).Draw(t, "flip")
		times := rapid.SliceOfN(rapid.Float64Range(0, 10), 1, 50).Draw(t, "times")
		for i := range times {
			times[i] = flip * math.Expm1(times[i])
		}
		if ns, best := spent(flip, times); ns > (1+1/Trust)*best*(1+1e-9) {
			t.Errorf("%v, the best is %v", ns, best)
		}
	})
}
