package approx

import (
	"cmp"
	"math"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
)

// weighted is a number of equal or similar values, each of which stands for some others.
type weighted struct {
	v         float64
	n, weight float64
	replicate int
}

// quantile estimates a quantile: that of the weighted values, between those at the bounds of
// the share of values below it.
func (g *Group) quantile(f *plan.Agg, acc fold.Distribution) Result {
	q := 0.5
	if len(f.Params) == 1 {
		if q = f.Params[0].F; q == 0 {
			q = float64(f.Params[0].I)
		}
	}
	var all []weighted
	var sum float64
	values := 0
	for _, m := range g.Members {
		x := weighted{weight: 1, replicate: m.Replicate}
		if m.Replicate >= 0 {
			if share := g.Places.list[m.Place].Share(); share > 0 {
				x.weight = 1 / share
			}
		}
		acc.Values(m.State, func(v float64, n int64) {
			x.v, x.n = v, float64(n)
			all = append(all, x)
			sum += x.n * x.weight
			values += int(n)
		})
	}
	if values == 0 {
		return Result{Null: true}
	}
	slices.SortFunc(all, func(a, b weighted) int { return cmp.Compare(a.v, b.v) })
	i := estimate.Exact(at(all, q, sum))
	if g.Exact() {
		return Result{Interval: i}
	}
	median := at(all, 0.5, sum)
	var below, half, total [estimate.Replicates]float64
	add := func(x weighted, replicate int, weight float64) {
		total[replicate] += weight
		if x.v <= i.Estimate {
			below[replicate] += weight
		}
		if x.v <= median {
			half[replicate] += weight
		}
	}
	for _, x := range all {
		if x.replicate >= 0 {
			add(x, x.replicate, x.n*x.weight)
			continue
		}
		for r := range total { // what is known varies in none
			add(x, r, x.n/estimate.Replicates)
		}
	}
	p := estimate.Proportion(&below, &half, &total, values, g.Confidence)
	i.Low, i.High = math.Inf(-1), math.Inf(1)
	if g.censored() {
		return Result{Interval: i}
	}
	if p.Low > 0 {
		i.Low = at(all, q+p.Low-p.Estimate, sum)
	}
	if high := q + p.High - p.Estimate; high < 1 && p.High < 1 {
		i.High = at(all, high, sum)
	}
	return Result{Interval: i}
}

// at returns the quantile q of sorted values, whose weights have a sum.
func at(all []weighted, q, sum float64) float64 {
	below := 0.0
	for _, x := range all {
		if below += x.n * x.weight; below >= q*sum {
			return x.v
		}
	}
	return all[len(all)-1].v
}
