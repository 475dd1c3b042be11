package estimate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"endoscope/probes/testenv"
)

// designs are rates and slices between a hit in ten slices and a hundred in each, and
// between 15 and 300 slices.
var designs = []struct{ rate, period, slice float64 }{
	{50, .1, .002}, {500, .1, .002}, {1000, .1, .01},
	{200, .5, .02}, {1000, .5, .025},
	{1000, 2, .005}, {2000, 2, .05},
}

// TestCoverage simulates programs whose calls are known, and counts how often the
// intervals contain the truth. Seeds are fixed: the counts are the same in each run. With
// 120 runs in place of 20 (a minute) between 93.6 and 98.7 % of 840 intervals do, for each
// load and quantity.
func TestCoverage(t *testing.T) {
	const T, confidence, least = 30, 0.95, 0.93
	runs := testenv.Times(20)
	for name, load := range loads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(1, 2))
			covered, bounded := map[string]int{}, map[string]int{}
			width := map[string]float64{}
			pairs := 0
			for _, d := range designs {
				for range runs {
					hits := load(r, T, d.rate)
					s := look(r, hits, T, d.period, d.slice)
					pairs++
					for what, check := range quantities {
						i, truth := check(hits, &s, confidence)
						if i.Low <= truth && truth <= i.High {
							covered[what]++
						}
						if i.Bounded() {
							bounded[what]++
							width[what] += (i.High - i.Low) / 2 / truth
						}
					}
				}
			}
			for what := range quantities {
				t.Logf("%-16s %4d of %d cover, %d bounded, half of the width %.1f %% on average",
					what, covered[what], pairs, bounded[what], 100*width[what]/float64(bounded[what]))
				n := float64(pairs)
				if enough := least*n - 2*math.Sqrt(least*(1-least)*n); float64(covered[what]) < enough {
					t.Errorf("%s: %d of %d intervals cover the truth, too few for %.0f %%", what, covered[what], pairs, 100*least)
				}
			}
		})
	}
}

// quantities are what is estimated of the hits, each with the truth.
var quantities = map[string]func(hits []hit, s *seen, confidence float64) (Interval, float64){
	"count": func(hits []hit, s *seen, confidence float64) (Interval, float64) {
		n, _, _ := s.counts()
		var t Total
		t.Add(&s.exposure, &n)
		return t.Interval(confidence), float64(len(hits))
	},
	"sum": func(hits []hit, s *seen, confidence float64) (Interval, float64) {
		var sums [Replicates]float64
		for r := range sums {
			sums[r] = sum(s.hits[r])
		}
		var t Total
		t.Add(&s.exposure, &sums)
		return t.Interval(confidence), sum(hits)
	},
	"average": func(hits []hit, s *seen, confidence float64) (Interval, float64) {
		n, found, _ := s.counts()
		i := Value([]Exposure{s.exposure}, &found, confidence, func(w Weights) float64 {
			var a, b float64
			for r := range n {
				a += w(0, r) * sum(s.hits[r])
				b += w(0, r) * n[r]
			}
			return a / b
		})
		return i, sum(hits) / float64(len(hits))
	},
	"median": quantile(0.5),
	"p95":    quantile(0.95),
}

// quantile estimates a quantile by the interval of the share of hits below it.
func quantile(q float64) func([]hit, *seen, float64) (Interval, float64) {
	return func(hits []hit, s *seen, confidence float64) (Interval, float64) {
		truth := at(q, took(hits))
		n, _, all := s.counts()
		if all == 0 {
			return unbounded(0, 0), truth
		}
		var flat []float64
		for _, hs := range s.hits {
			flat = append(flat, took(hs)...)
		}
		estimate := at(q, flat)
		below, half := s.below(estimate), s.below(at(0.5, flat))
		p := Proportion(&below, &half, &n, all, confidence)
		i := Interval{0, estimate, unbounded(0, 0).High}
		if p.Low > 0 {
			i.Low = at(q+p.Low-p.Estimate, flat)
		}
		if high := q + p.High - p.Estimate; high < 1 && p.High < 1 {
			i.High = at(high, flat)
		}
		return i, truth
	}
}

func took(hits []hit) (ds []float64) {
	for _, h := range hits {
		ds = append(ds, h.took)
	}
	return ds
}

func sum(hits []hit) (s float64) {
	for _, h := range hits {
		s += h.took
	}
	return s
}

// at returns the quantile q of vs by its rank.
func at(q float64, vs []float64) float64 {
	vs = slices.Sorted(slices.Values(vs))
	return vs[min(max(int(q*float64(len(vs))), 0), len(vs)-1)]
}
