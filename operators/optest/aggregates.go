package optest

import (
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// member is one row of a group, as an aggregate sees it.
type member struct {
	v    types.Value // the argument; unused for COUNT(*) and RATE(*)
	time int64       // event time; the row number if there is none
}

// fold computes an aggregate over the members of a group, in order of arrival. RATE divides
// by elapsed, in ns.
func fold(a *plan.Agg, group []member, elapsed int64) (types.Value, error) {
	if a.Star {
		n := int64(len(group))
		switch {
		case a.Fn == "count":
			return types.Int(n), nil
		case elapsed <= 0:
			return types.NullOf(types.Double), nil
		}
		return types.Float(float64(n) / (float64(elapsed) / 1e9)), nil
	}
	group = slices.DeleteFunc(slices.Clone(group), func(m member) bool { return m.v.IsNull })
	vs := make([]types.Value, len(group))
	for i, m := range group {
		vs[i] = m.v
	}
	if a.Fn == "count" {
		if a.Distinct {
			return types.Int(int64(len(tally(vs)))), nil
		}
		return types.Int(int64(len(vs))), nil
	}
	if len(vs) == 0 {
		return types.NullOf(a.T), nil
	}
	switch a.Fn {
	case "sum":
		return sum(vs, a.T)
	case "avg":
		return average(vs, a.T)
	case "min":
		return slices.MinFunc(vs, Order), nil
	case "max":
		return slices.MaxFunc(vs, Order), nil
	case "variance", "stddev":
		return spread(a.Fn, vs, a.T)
	case "quantile":
		return quantile(vs, a.Params[0].F, a.T)
	case plan.PercentileCont:
		return Interpolate(vs, a.Params[0].F, a.T), nil
	case "median":
		return quantile(vs, 0.5, a.T)
	case "first":
		return slices.MinFunc(group, byTime).v, nil
	case "last":
		return slices.MaxFunc(group, byTime).v, nil
	case "topk":
		return topK(vs, a.Params[0].I), nil
	case "histogram":
		return histogram(vs, a.Params)
	}
	return types.Value{}, fmt.Errorf("no aggregate %s", a.Fn)
}

// byTime orders members by their times, and those of one time by their values.
func byTime(a, b member) int { return cmp.Or(cmp.Compare(a.time, b.time), Order(a.v, b.v)) }

// total returns the exact sum or, if there is an infinity or a NaN, the sum of those.
func total(vs []types.Value) (exact *big.Rat, special float64, isSpecial bool) {
	exact = new(big.Rat)
	for _, v := range vs {
		switch {
		case v.Type != types.Double:
			exact.Add(exact, new(big.Rat).SetInt(Whole(v)))
		case math.IsNaN(v.F) || math.IsInf(v.F, 0):
			special, isSpecial = special+v.F, true
		default:
			exact.Add(exact, new(big.Rat).SetFloat64(v.F))
		}
	}
	return exact, special, isSpecial
}

func sum(vs []types.Value, t types.Type) (types.Value, error) {
	exact, special, isSpecial := total(vs)
	switch {
	case isSpecial:
		return types.Float(special), nil
	case t == types.Double:
		f, _ := exact.Float64()
		return types.Float(f), nil
	}
	return Fits(exact.Num(), t)
}

func average(vs []types.Value, t types.Type) (types.Value, error) {
	exact, special, isSpecial := total(vs)
	if isSpecial {
		return types.Float(special), nil
	}
	f, _ := exact.Quo(exact, new(big.Rat).SetInt64(int64(len(vs)))).Float64()
	return asType(f, t)
}

// asType returns a computed number as a DOUBLE or, rounded, a DURATION.
func asType(f float64, t types.Type) (types.Value, error) {
	if t == types.Double {
		return types.Float(f), nil
	}
	return rounded(f, t)
}

// spread returns the variance of a sample, Σ(x-mean)²/(n-1), or its root.
func spread(fn string, vs []types.Value, t types.Type) (types.Value, error) {
	n := int64(len(vs))
	if n < 2 {
		return types.NullOf(t), nil
	}
	exact, _, isSpecial := total(vs)
	if isSpecial {
		return types.Float(math.NaN()), nil
	}
	mean := exact.Quo(exact, new(big.Rat).SetInt64(n))
	squares := new(big.Rat)
	for _, v := range vs {
		d := new(big.Rat)
		if v.Type == types.Double {
			d.SetFloat64(v.F)
		} else {
			d.SetInt(Whole(v))
		}
		d.Sub(d, mean)
		squares.Add(squares, d.Mul(d, d))
	}
	f, _ := squares.Quo(squares, new(big.Rat).SetInt64(n-1)).Float64()
	if fn == "stddev" {
		f = math.Sqrt(f)
	}
	return asType(f, t)
}

// quantile returns the smallest value whose cumulative share is at least q.
func quantile(vs []types.Value, q float64, t types.Type) (types.Value, error) {
	sorted := slices.SortedFunc(slices.Values(vs), Order)
	k := 1
	for float64(k)/float64(len(sorted)) < q {
		k++
	}
	if v := sorted[k-1]; v.Type == t {
		return v, nil
	}
	return asType(asFloat(sorted[k-1]), t)
}

// Interpolate returns the value between the two next to a place, as PostgreSQL's
// percentile_cont computes it.
func Interpolate(vs []types.Value, q float64, t types.Type) types.Value {
	sorted := slices.SortedFunc(slices.Values(vs), Order)
	place := q * float64(len(sorted)-1)
	low, high := sorted[int(math.Floor(place))], sorted[int(math.Ceil(place))]
	part := place - math.Floor(place)
	switch {
	case t == types.Duration:
		way, _ := new(big.Float).SetInt(new(big.Int).Sub(big.NewInt(high.I), big.NewInt(low.I))).Float64()
		step, _ := big.NewFloat(math.Round(part * way)).Int(nil)
		return types.Dur(step.Add(step, big.NewInt(low.I)).Int64())
	case Order(low, high) == 0:
		return types.Float(asFloat(low))
	}
	return types.Float(asFloat(low) + part*(asFloat(high)-asFloat(low)))
}

// counted is a value and its number of occurrences.
type counted struct {
	v types.Value
	n int64
}

// tally counts values, in order of first appearance.
func tally(vs []types.Value) []counted {
	var cs []counted
	at := map[string]int{}
	for _, v := range vs {
		k := key([]types.Value{v})
		i, ok := at[k]
		if !ok {
			i = len(cs)
			at[k], cs = i, append(cs, counted{v, 0})
		}
		cs[i].n++
	}
	return cs
}

// topK lists the most frequent values; of equally frequent ones, the smallest
// come first.
func topK(vs []types.Value, n int64) types.Value {
	cs := tally(vs)
	slices.SortFunc(cs, func(a, b counted) int { return cmp.Or(cmp.Compare(b.n, a.n), Order(a.v, b.v)) })
	list := []types.Value{}
	for _, c := range cs[:min(int64(len(cs)), n)] {
		list = append(list, types.ListOf([]types.Value{c.v, types.Int(c.n)}))
	}
	return types.ListOf(list)
}

// histogram lists the non-empty buckets. Without borders they are [2^k, 2^(k+1)), their
// mirror images, and one for 0, which is [0, 1) for integers and [0, 0] for DOUBLE.
func histogram(vs []types.Value, params []types.Value) (types.Value, error) {
	t := vs[0].Type
	if len(params) == 3 {
		return steps(vs, params[0].F, params[1].F, params[2].F), nil
	}
	type bucket struct{ low, high *big.Int } // in units of 2^-1100 for DOUBLE
	const unit = 1100
	var order []bucket
	counts := map[string]int64{}
	for _, v := range vs {
		x := new(big.Int)
		if t == types.Double {
			if math.IsNaN(v.F) {
				continue
			}
			f := max(-math.MaxFloat64, min(math.MaxFloat64, v.F))
			r := new(big.Rat).SetFloat64(f)
			r.Mul(r, new(big.Rat).SetInt(new(big.Int).Lsh(big.NewInt(1), unit)))
			x.Set(r.Num())
		} else {
			x.Set(Whole(v))
		}
		b := bucket{new(big.Int), new(big.Int)}
		switch one := big.NewInt(1); {
		case x.Sign() > 0:
			b.low.Lsh(one, uint(x.BitLen()-1))
			b.high.Lsh(one, uint(x.BitLen()))
		case x.Sign() < 0:
			less := new(big.Int).Not(x) // -x-1: the upper border is excluded
			b.high.Lsh(one, uint(less.BitLen()))
			b.low.Neg(b.high)
			b.high.Rsh(b.high, 1)
			b.high.Neg(b.high)
		case t != types.Double:
			b.high.SetInt64(1)
		}
		k := b.low.String()
		if counts[k] == 0 {
			order = append(order, b)
		}
		counts[k]++
	}
	if len(order) == 0 {
		return types.NullOf(types.List), nil
	}
	slices.SortFunc(order, func(a, b bucket) int { return a.low.Cmp(b.low) })
	border := func(x *big.Int) types.Value {
		if t == types.Double {
			f, _ := new(big.Float).SetMantExp(new(big.Float).SetInt(x), -unit).Float64()
			return types.Float(f)
		}
		v, err := Fits(x, t)
		if err != nil {
			return types.NullOf(t)
		}
		return v
	}
	var list []types.Value
	for _, b := range order {
		list = append(list, types.ListOf([]types.Value{border(b.low), border(b.high), types.Int(counts[b.low.String()])}))
	}
	return types.ListOf(list), nil
}

// steps returns the histogram of equal steps from lo up to hi, with a bucket below and one
// above. It adds up borders, so they should be numbers that a DOUBLE can hold.
func steps(vs []types.Value, lo, hi, step float64) types.Value {
	t := vs[0].Type
	border := func(x float64) types.Value {
		v, _ := cast(types.Float(x), t)
		return v
	}
	none := types.NullOf(t)
	var list []types.Value
	add := func(from, to float64, low, high types.Value) {
		n := int64(0)
		for _, v := range vs {
			if x := asFloat(v); !math.IsNaN(x) && x >= from && x < to || math.IsInf(to, 1) && math.IsInf(x, 1) {
				n++
			}
		}
		if n > 0 {
			list = append(list, types.ListOf([]types.Value{low, high, types.Int(n)}))
		}
	}
	add(math.Inf(-1), lo, none, border(lo))
	for x := lo; x < hi; x += step {
		to := min(x+step, hi)
		add(x, to, border(x), border(to))
	}
	add(hi, math.Inf(1), border(hi), none)
	if list == nil {
		return types.NullOf(types.List)
	}
	return types.ListOf(list)
}
