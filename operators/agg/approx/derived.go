package approx

import (
	"math"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/estimate"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Derived estimates an expression over aggregates, such as a ratio of two: it is computed of the
// sums of all places, and again without each replicate.
func (g *Group) Derived(x plan.Expr, aggs []plan.Agg, accs []fold.Accumulator, elapsed int64) Result {
	whole := g.Exact()
	return g.scaled(func(of weighing) float64 {
		return evaluate(x, whole, func(i int) float64 {
			acc, ok := accs[i].(fold.Moments)
			if !ok {
				return math.NaN() // not reached: the planner refuses others
			}
			return of.aggregate(aggs[i].Fn, acc, elapsed)
		})
	})
}

// scaled estimates a function of weighted sums that may depend on the weights themselves, and not
// only on their ratios: its bounds are wider by what is not known of the progress in slices.
func (g *Group) scaled(compute func(weighing) float64) Result {
	r := g.value(compute)
	if g.Exact() || r.Null {
		return r
	}
	at := func(factor func(e *estimate.Exposure) float64) float64 {
		return compute(func(of func(Member) float64) (sum float64) {
			for _, m := range g.Members {
				weight := 1.0
				if e := &g.Places.list[m.Place]; m.Replicate >= 0 && e.Share() > 0 {
					weight = factor(e) / e.Share()
				}
				sum += weight * of(m)
			}
			return sum
		})
	}
	if g.blind() {
		if twice := at(func(*estimate.Exposure) float64 { return 2 }); !(math.Abs(twice-r.Estimate) <= 1e-9*math.Abs(r.Estimate)) {
			r.Low, r.High = math.Inf(-1), math.Inf(1)
			return r
		}
	}
	for _, v := range []float64{
		at(func(e *estimate.Exposure) float64 { return 1 / (1 - min(e.Slowdown, 0.999)) }),
		at(func(e *estimate.Exposure) float64 { return 1 / (1 + e.Speedup) }),
	} {
		r.Low -= max(r.Estimate-v, 0)
		r.High += max(v-r.Estimate, 0)
	}
	return r
}

// blind reports whether nothing was seen at a place of the group, or the program may have stood
// still in its slices.
func (g *Group) blind() bool {
	return slices.ContainsFunc(g.Members, func(m Member) bool {
		e := &g.Places.list[m.Place]
		return e.Whole > 0 && (e.Share() == 0 || e.Slowdown >= 1)
	})
}

// aggregate computes an aggregate of weighted sums. NaN is no value.
func (of weighing) aggregate(fn string, acc fold.Moments, elapsed int64) float64 {
	count := of(func(m Member) float64 { n, _, _ := acc.Moments(m.State); return n })
	switch fn {
	case "count":
		return count
	case "rate":
		return count / (float64(elapsed) / 1e9)
	}
	sum := of(func(m Member) float64 { _, s, _ := acc.Moments(m.State); return s })
	switch {
	case count == 0:
		return math.NaN()
	case fn == "sum":
		return sum
	case fn == "avg":
		return sum / count
	case count <= 1:
		return math.NaN()
	}
	squares := of(func(m Member) float64 { _, _, q := acc.Moments(m.State); return q })
	mean := sum / count
	v := max(squares/count-mean*mean, 0) * count / (count - 1)
	if fn == "stddev" {
		return math.Sqrt(v)
	}
	return v
}

// evaluate computes an expression of numbers. Of whole ones quotients are truncated if all is
// known, as in exact results.
func evaluate(x plan.Expr, whole bool, column func(int) float64) float64 {
	switch e := x.(type) {
	case *plan.Col:
		return column(e.Index)
	case *plan.Const:
		if e.V.Type == types.Double {
			return e.V.F
		}
		return float64(e.V.I)
	case *plan.Cast:
		return truncated(evaluate(e.X, whole, column), whole, e.T)
	case *plan.Call:
		v := evaluate(e.Args[0], whole, column)
		if len(e.Args) == 1 {
			return function(e.Fn, v)
		}
		w := evaluate(e.Args[1], whole, column)
		switch e.Fn {
		case "+":
			return v + w
		case "-":
			return v - w
		case "*":
			return v * w
		}
		if w == 0 {
			return math.NaN()
		}
		return truncated(v/w, whole, e.T)
	}
	return math.NaN()
}

func truncated(v float64, whole bool, t types.Type) float64 {
	if whole && t.Physical() == types.PhysInt {
		return math.Trunc(v)
	}
	return v
}

// function computes a function of a number (plan.Derives).
func function(name string, v float64) float64 {
	switch name {
	case "neg":
		return -v
	case "abs":
		return math.Abs(v)
	case "sqrt":
		return math.Sqrt(v)
	case "to_us":
		return v / 1e3
	case "to_ms":
		return v / 1e6
	case "to_s":
		return v / 1e9
	case "to_min":
		return v / 60e9
	}
	return math.NaN()
}
