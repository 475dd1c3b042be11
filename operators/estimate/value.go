package estimate

import (
	"math"
	"slices"
)

// Weights says by how much the state of a replicate counts at each place. Places that
// were observed all the time count once in all of them.
type Weights func(place, replicate int) float64

// Value estimates a function of weighted states, such as an average. compute is called
// with the weights of the estimate, and of those that leave one replicate out; a replicate
// that is left out weighs 0. It returns NaN where there is no value.
//
// Where all estimates are positive, the bounds are as far apart in ratio: what takes time
// has a long tail above, and few values understate it.
//
// groups says which replicates are left out in turn: for a sum those that have slices, for
// a ratio those that have seen anything.
func Value(places []Exposure, groups *[Replicates]bool, confidence float64, compute func(Weights) float64) Interval {
	weights := func(without int) Weights {
		ws := make([]float64, len(places))
		for i := range places {
			ws[i] = places[i].weight(without)
		}
		return func(place, replicate int) float64 {
			if replicate == without {
				return 0
			}
			return ws[place]
		}
	}
	estimate := compute(weights(all))
	without := make([]float64, 0, Replicates)
	for r := range Replicates {
		if !groups[r] {
			continue
		}
		if v := compute(weights(r)); !math.IsNaN(v) {
			without = append(without, v)
		}
	}
	if math.IsNaN(estimate) || len(without) < LeastSlices {
		return Interval{math.Inf(-1), estimate, math.Inf(1)}
	}
	v, freedom := variance(estimate, without)
	half := tQuantile((1+confidence)/2, freedom) * math.Sqrt(v)
	if slices.Min(without) > 0 && estimate > 0 {
		f := math.Exp(half / estimate)
		return Interval{estimate / f, estimate, estimate * f}
	}
	return Interval{estimate - half, estimate, estimate + half}
}
