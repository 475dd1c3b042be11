package estimate

// Proportion returns the interval of the share of values below a threshold, of which
// below[r] of total[r] were seen in replicate r, both weighted. The quantiles at its
// bounds are those of the quantile at its estimate (Woodruff, Journal of the American
// Statistical Association 47, 1952).
//
// It is the interval of Clopper and Pearson for the number of independent values that
// have the variance of the slices (Korn and Graubard, Survey Methodology 24, 1998): it
// stays within 0 and 1, and holds for the outer quantiles of few values. values is how
// many were seen. Values that come in clusters are not independent; few in the tail do not
// show that, so that half[r], the values below the median, is asked as well.
func Proportion(below, half, total *[Replicates]float64, values int, confidence float64) Interval {
	p, v, freedom := share(below, total)
	if v < 0 {
		return Interval{0, p, 1}
	}
	tail := (1 - confidence) / 2
	f := normalQuantile(1-tail) / tQuantile(1-tail, freedom)
	effective := float64(values)
	if v > 0 {
		effective = min(effective, p*(1-p)/v*f*f)
	}
	if p, v, _ := share(half, total); v > 0 {
		effective = min(effective, p*(1-p)/v*f*f)
	}
	x := p * effective
	interval := Interval{0, p, 1}
	if x > 0 {
		interval.Low = betaQuantile(tail, x, effective-x+1)
	}
	if x < effective {
		interval.High = betaQuantile(1-tail, x+1, effective-x)
	}
	return interval
}

// share returns the share of values below a threshold, its variance, and the degrees of
// freedom of that. The variance is negative if it is not known.
func share(below, total *[Replicates]float64) (p, v, freedom float64) {
	var b, n float64
	for r := range total {
		b += below[r]
		n += total[r]
	}
	p = b / n
	without := make([]float64, 0, Replicates)
	for r := range total {
		if total[r] > 0 && total[r] < n {
			without = append(without, (b-below[r])/(n-total[r]))
		}
	}
	if len(without) < LeastSlices {
		return p, -1, 0
	}
	v, freedom = variance(p, without)
	return p, v, freedom
}
