package estimate

import "math"

// A Total estimates the sum of quantities that are not negative: numbers of hits, or of
// the bytes that they carry. The zero value is an empty sum.
type Total struct {
	exact    float64
	estimate float64
	without  [Replicates]float64
	looked   [Replicates]bool // replicates that have slices
	found    [Replicates]bool // and those in which anything was seen
	unit     float64          // the largest weight
	blind    bool             // a place has no bound: nothing of it was looked at, or it may have stood still
	slowed   float64          // how much the estimate may be too low because probes slow the target
	sped     float64          // how much it may be too high, as Seen is too low
}

// AddExact adds what was seen at a place that was observed all the time.
func (t *Total) AddExact(seen float64) { t.exact += seen }

// Add adds what was seen at a place in the slices of each replicate.
func (t *Total) Add(e *Exposure, seen *[Replicates]float64) {
	sum := 0.0
	for r, s := range seen {
		sum += s
		t.looked[r] = t.looked[r] || e.Seen[r] > 0
		t.found[r] = t.found[r] || s > 0
	}
	w := e.weight(all)
	t.blind = t.blind || e.Whole > 0 && (w == 0 || e.Slowdown >= 1)
	t.estimate += w * sum
	t.unit = max(t.unit, w)
	if e.Slowdown < 1 {
		t.slowed += w * sum * e.Slowdown / (1 - e.Slowdown)
	}
	t.sped += w * sum * e.Speedup / (1 + e.Speedup)
	for r, s := range seen {
		t.without[r] += e.weight(r) * (sum - s)
	}
}

// Interval returns the estimate and its bounds. confidence is between 0 and 1.
//
// The bounds are those of a weighted sum of Poisson variables (Fay and Feuer, Statistics
// in Medicine 16, 1997), with the variance of the slices in place of Poisson's, so that
// they hold for few hits, and become those of Student's distribution for many. The weight
// that their upper bound adds is that of one cluster of hits: the variance over the mean.
func (t *Total) Interval(confidence float64) Interval {
	found := 0
	var without []float64
	for r, w := range t.without {
		if t.looked[r] {
			without = append(without, w)
		}
		if t.found[r] {
			found++
		}
	}
	switch {
	case t.unit == 0 && t.blind:
		return unbounded(t.exact, t.exact)
	case t.unit == 0:
		return Exact(t.exact)
	case found < LeastSlices:
		return unbounded(t.exact+t.estimate, t.exact+t.estimate/t.unit)
	}
	y, tail := t.estimate, (1-confidence)/2
	v, freedom := variance(y, without)
	f := tQuantile(1-tail, freedom) / normalQuantile(1-tail)
	v = max(v*f*f, y) // hits are whole
	w := max(t.unit, v/y)
	low := v / y * gammaQuantile(tail, y*y/v)
	high := (v + w*w) / (y + w) * gammaQuantile(1-tail, (y+w)*(y+w)/(v+w*w))
	low -= t.sped * low / y
	i := Interval{t.exact + low, t.exact + y, t.exact + high + t.slowed*high/y}
	if t.blind {
		i.High = math.Inf(1)
	}
	return i
}
