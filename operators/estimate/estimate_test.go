package estimate

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	_ "endoscope/operators/optest/seeds"
)

// TestQuantiles compares quantiles with tables of the distributions.
func TestQuantiles(t *testing.T) {
	for _, c := range []struct{ got, want float64 }{
		{tQuantile(0.975, 4), 2.776445}, {tQuantile(0.975, 15), 2.131450}, {tQuantile(0.995, 10), 3.169273},
		{normalQuantile(0.975), 1.959964},
		{gammaQuantile(0.975, 1), 3.688879}, {gammaQuantile(0.025, 5), 1.623486}, // half of chi-square with 10 degrees
		{betaQuantile(0.975, 1, 10), 0.308497},
	} {
		if math.Abs(c.got-c.want) > 1e-5 {
			t.Errorf("%.6f, the table has %.6f", c.got, c.want)
		}
	}
}

// TestAllDraws computes the estimate for every slice that can be drawn from a small
// program: their mean is the truth, and the mean of their variances is at least the
// variance that they have.
func TestAllDraws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		periods, moments := rapid.IntRange(2, 5).Draw(t, "periods"), rapid.IntRange(2, 4).Draw(t, "moments")
		hits := make([][]float64, periods)
		truth := 0.0
		for p := range hits {
			for range moments {
				n := float64(rapid.IntRange(0, 9).Draw(t, "hits"))
				hits[p] = append(hits[p], n)
				truth += n
			}
		}
		draws := int(math.Pow(float64(moments), float64(periods)))
		var mean, square, variances float64
		for d := range draws {
			e := Exposure{Whole: float64(periods * moments)}
			var seen [Replicates]float64
			for p, rest := 0, d; p < periods; p, rest = p+1, rest/moments {
				e.Add(p, 1)
				seen[p] += hits[p][rest%moments]
			}
			var total Total
			total.Add(&e, &seen)
			v, _ := variance(total.estimate, total.without[:periods])
			mean += total.estimate / float64(draws)
			square += total.estimate * total.estimate / float64(draws)
			variances += v / float64(draws)
		}
		if math.Abs(mean-truth) > 1e-9*(1+truth) {
			t.Errorf("the mean of %d estimates is %g, the truth %g", draws, mean, truth)
		}
		if has := square - mean*mean; variances < has-1e-9*(1+square) {
			t.Errorf("the estimates have a variance of %g, and say %g on average", has, variances)
		}
	})
}

// TestTotalOfPlaces: what was observed all the time is exact, and adds to an estimate.
func TestTotalOfPlaces(t *testing.T) {
	var exact Total
	exact.AddExact(12)
	if i := exact.Interval(0.95); i != Exact(12) {
		t.Errorf("12 that were seen are %v", i)
	}

	e := Exposure{Whole: 1600}
	var seen [Replicates]float64
	for j := range 160 {
		e.Add(j, 1)
		seen[j%Replicates] += float64(j / Replicates % 2)
	}
	var a, both Total
	a.Add(&e, &seen)
	both.Add(&e, &seen)
	both.AddExact(12)
	i, j := a.Interval(0.95), both.Interval(0.95)
	if i.Estimate != 800 || e.Share() != 0.1 {
		t.Errorf("80 hits in a share of %g are %v", e.Share(), i)
	}
	if want := (Interval{i.Low + 12, i.Estimate + 12, i.High + 12}); j != want {
		t.Errorf("with 12 more %v, want %v", j, want)
	}
	// The slices are equal: what remains is that hits are whole.
	if half := (i.High - i.Low) / 2; half > 75 || half < 50 {
		t.Errorf("equal slices give %v", i)
	}
}

// TestTooFewSlices: an estimate of which little was seen has only a lower bound.
func TestTooFewSlices(t *testing.T) {
	e := Exposure{Whole: 160}
	for j := range 16 {
		e.Add(j, 1)
	}
	var total Total
	total.Add(&e, &[Replicates]float64{3, 0, 1, 0, 2, 1})
	i := total.Interval(0.95)
	if i.Bounded() || i.Low != 7 || i.Estimate != 70 {
		t.Errorf("7 hits in 4 slices give %v", i)
	}
	if p := Proportion(&[Replicates]float64{1}, &[Replicates]float64{1}, &[Replicates]float64{2, 2}, 4, 0.95); p.Low != 0 || p.High != 1 {
		t.Errorf("4 values in 2 slices give %v", p)
	}
}

// TestSlowdown: hits that a slowed target may not have made widen the upper bound alone.
func TestSlowdown(t *testing.T) {
	var totals [2]Interval
	for k, slow := range []float64{0, 0.2} {
		e := Exposure{Whole: 1600, Slowdown: slow}
		var seen [Replicates]float64
		for j := range 160 {
			e.Add(j, 1)
			seen[j%Replicates] += 100
		}
		var total Total
		total.Add(&e, &seen)
		totals[k] = total.Interval(0.95)
	}
	a, b := totals[0], totals[1]
	if a.Low != b.Low || a.Estimate != b.Estimate || math.Abs(b.High/a.High-1.25) > 1e-9 {
		t.Errorf("%v becomes %v where a fifth of the progress may be lost", a, b)
	}
}

// TestMergedExposures: two hosts, or two times, are one exposure of both.
func TestMergedExposures(t *testing.T) {
	a, b := Exposure{Whole: 100, Slowdown: 0.1}, Exposure{Whole: 300, Slowdown: 0.3}
	a.Add(3, 10)
	b.Add(4, 30)
	a.Merge(&b)
	want := Exposure{Whole: 400, Slowdown: 0.25}
	want.Seen[3], want.Seen[4] = 10, 30
	if a != want {
		t.Errorf("merged: %v, want %v", a, want)
	}
}

// TestValueOfFewReplicates: replicates that saw nothing are not left out of the estimate.
func TestValueOfFewReplicates(t *testing.T) {
	e := Exposure{Whole: 60}
	for j := range 6 {
		e.Add(j, 1)
	}
	found := [Replicates]bool{true, true, true, true, true, true}
	values := []float64{1, 2, 3, 4, 5, 6}
	i := Value([]Exposure{e}, &found, 0.95, func(w Weights) float64 {
		var sum, n float64
		for r, v := range values {
			sum += w(0, r) * v
			n += w(0, r)
		}
		return sum / n
	})
	// The jackknife of a mean is the variance of the mean: 3.5 / 6, with 5 degrees of freedom.
	half := tQuantile(0.975, 5) * math.Sqrt(3.5/6)
	if f := math.Exp(half / 3.5); math.Abs(i.Low-3.5/f) > 1e-9 || i.Estimate != 3.5 || math.Abs(i.High-3.5*f) > 1e-9 {
		t.Errorf("the mean of 1 to 6 is %v, want 3.5 over and times %g", i, f)
	}
}

func BenchmarkTotal(b *testing.B) {
	e := Exposure{Whole: 1600}
	var seen [Replicates]float64
	for j := range 160 {
		e.Add(j, 1)
		seen[j%Replicates] += float64(j % 3)
	}
	b.ReportAllocs()
	for b.Loop() {
		var t Total
		t.Add(&e, &seen)
		t.Interval(0.95)
	}
}
