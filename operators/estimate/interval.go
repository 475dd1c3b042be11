package estimate

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// An Interval is an estimate and the bounds of the truth.
type Interval struct {
	Low, Estimate, High float64
}

// Exact is the interval of a value that is known.
func Exact(v float64) Interval { return Interval{v, v, v} }

// unbounded is the interval of an estimate of which too little was seen.
func unbounded(estimate, least float64) Interval {
	return Interval{least, estimate, math.Inf(1)}
}

// Bounded reports whether enough was seen for an interval.
func (i Interval) Bounded() bool { return !math.IsInf(i.Low, 0) && !math.IsInf(i.High, 0) }

// Within reports whether the bounds differ from the estimate by at most a share of it.
func (i Interval) Within(share float64) bool {
	return max(i.High-i.Estimate, i.Estimate-i.Low) <= share*math.Abs(i.Estimate)
}

// variance is the delete-a-group jackknife of the estimates without each of g replicates.
// It returns the degrees of freedom as well: g - 1 where the replicates differ as normal
// variables do, fewer where few of them differ much, by the kurtosis (Satterthwaite).
func variance(estimate float64, without []float64) (v, freedom float64) {
	g, fourth := float64(len(without)), 0.0
	for _, w := range without {
		d := (w - estimate) * (w - estimate)
		v += d
		fourth += d * d
	}
	freedom = g - 1
	if fourth > 0 {
		freedom = min(freedom, max(leastFreedom, 3*v*v/fourth-3))
	}
	return v * (g - 1) / g, freedom
}

// leastFreedom bounds what the kurtosis of few replicates says.
const leastFreedom = 4

// tQuantile returns the quantile p of Student's distribution with n degrees of freedom,
// for p above one half.
func tQuantile(p, n float64) float64 {
	// The square of t over (t² + n) has the distribution Beta(1/2, n/2).
	x := mathext.InvRegIncBeta(0.5, n/2, 2*p-1)
	return math.Sqrt(x / (1 - x) * n)
}

// normalQuantile returns the quantile p of the normal distribution.
func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// gammaQuantile returns the quantile p of the gamma distribution of the given shape.
func gammaQuantile(p, shape float64) float64 { return mathext.GammaIncRegInv(shape, p) }

// betaQuantile returns the quantile p of Beta(a, b).
func betaQuantile(p, a, b float64) float64 { return mathext.InvRegIncBeta(a, b, p) }
