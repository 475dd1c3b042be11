package agg

import (
	"endoscope/operators/agg/encode"
	"endoscope/operators/agg/fold"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// newAccumulator makes the state of f, whose argument (if it has one) is of
// type arg. A small state of fixed size goes into l.
func newAccumulator(f *plan.Agg, arg types.Type, l *fold.Lanes) (fold.Accumulator, error) {
	switch f.Fn {
	case "count":
		if f.Distinct {
			return newCountDistinct(arg), nil
		}
		return newCount(l), nil
	case "sum":
		return newSum(f, arg, l), nil
	case "avg":
		return newAvg(arg, l), nil
	case "stddev", "variance":
		return newVariance(arg, f.Fn == "stddev"), nil
	case "min", "max":
		return newMinMax(arg, f.Fn == "max"), nil
	case "first", "last":
		return newFirstLast(arg, f.Fn == "last"), nil
	case "median":
		return newQuantile(f, 0.5)
	case "quantile":
		if len(f.Params) != 1 {
			return nil, plan.Errorf(-1, -1, "%s needs the quantile", f)
		}
		return newQuantile(f, parameter(f.Params[0]))
	case "sketch":
		return &sketch{}, nil
	case "sketch_quantile":
		return newSketchQuantile(f)
	case "histogram":
		return newHistogram(f, arg)
	case "topk":
		return newTopK(f, arg)
	case "trie":
		return &trie{}, nil
	case "live_objects", "invocation_tree", "wait_graph", "object_graph":
		return encode.NewPresents(f)
	case "rate":
		return rowRate{newCount(l)}, nil
	}
	return nil, plan.Errorf(-1, -1, "there is no aggregate function %s", f.Fn)
}

// parameter is a numeric parameter as a float.
func parameter(v types.Value) float64 {
	if v.Type.Physical() == types.PhysFloat {
		return v.F
	}
	return float64(v.I)
}
