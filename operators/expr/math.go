package expr

import (
	"math"

	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func abs(e *plan.Call, args []node) (node, error) {
	switch e.T.Physical() {
	case types.PhysInt:
		if e.T.Unsigned() {
			return args[0], nil
		}
		return newMap(e, args[0], func(x int64) (int64, outcome) {
			switch {
			case x == math.MinInt64:
				return 0, outOfRange
			case x < 0:
				return -x, valid
			}
			return x, valid
		}), nil
	case types.PhysFloat:
		return newVector(e.T, args[0], func(out, x []float64, r rows) {
			r.each(func(i int) { out[i] = math.Abs(x[i]) })
		}), nil
	}
	return nil, nil
}

// unaryFloat builds a function of DOUBLE that is defined everywhere.
func unaryFloat(f func(float64) float64) builder {
	return func(e *plan.Call, args []node) (node, error) {
		return newMap(e, args[0], func(x float64) (float64, outcome) { return f(x), valid }), nil
	}
}

// partialFloat builds a function of DOUBLE that yields NULL where undefined is true.
func partialFloat(f func(float64) float64, undefined func(float64) bool) builder {
	return func(e *plan.Call, args []node) (node, error) {
		return newMap(e, args[0], func(x float64) (float64, outcome) {
			if undefined(x) {
				return 0, isNothing
			}
			return f(x), valid
		}), nil
	}
}

func pow(e *plan.Call, args []node) (node, error) {
	return newPair(e, args, func(x, y float64) (float64, outcome) { return math.Pow(x, y), valid }), nil
}

func round(e *plan.Call, args []node) (node, error) {
	if len(args) == 1 {
		return unaryFloat(math.Round)(e, args)
	}
	return newPair(e, args, func(x float64, n int64) (float64, outcome) { return roundTo(x, n), valid }), nil
}

// roundTo rounds x to n decimals; n < 0 counts digits before the point.
func roundTo(x float64, n int64) float64 {
	switch {
	case n > 308: // no DOUBLE has such decimals
		return x
	case n < -308:
		return 0
	case n < 0:
		p := math.Pow10(int(-n))
		return math.Round(x/p) * p
	}
	p := math.Pow10(int(n))
	if math.IsInf(x*p, 0) { // too large to have decimals
		return x
	}
	return math.Round(x*p) / p
}

// roundToInt returns the nearest integer, halves away from zero, if it is in range.
func roundToInt(x float64) (int64, outcome) {
	x = math.Round(x)
	if !(x >= -1<<63 && x < 1<<63) {
		return 0, outOfRange
	}
	return int64(x), valid
}

// roundToUint is roundToInt for UBIGINT.
func roundToUint(x float64) (uint64, outcome) {
	x = math.Round(x)
	if !(x >= 0 && x < 1<<64) {
		return 0, outOfRange
	}
	return uint64(x), valid
}

// toUnit builds to_ns, to_us ...: a DURATION in units of ns nanoseconds.
func toUnit(ns float64) builder {
	return func(e *plan.Call, args []node) (node, error) {
		if e.T == types.Bigint {
			return newVector(e.T, args[0], copyVector[int64]), nil
		}
		return newVector(e.T, args[0], func(out []float64, x []int64, r rows) {
			r.each(func(i int) { out[i] = float64(x[i]) / ns })
		}), nil
	}
}

// copyVector is the identity, for conversions that change only the type.
func copyVector[T any](out, x []T, r rows) {
	r.each(func(i int) { out[i] = x[i] })
}
