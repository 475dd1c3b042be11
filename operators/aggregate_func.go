package operators

import (
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// accumulator is one aggregate function over all groups of a table: its state
// lies in arrays indexed by group. It is called once a batch, not once a row.
type accumulator interface {
	// grow makes room for groups 0 to n-1; those added are empty.
	grow(n int)
	// update folds rows into their groups.
	update(in *folding)
	// output makes out, which is empty, the results of groups.
	output(groups []uint32, out *batch.Column, at instant) error
	// reset forgets all groups and keeps the memory.
	reset()
}

// folding is what an accumulator is to fold in.
type folding struct {
	rows   []uint16        // physical rows, ascending
	groups []uint32        // by physical row; every entry is 0 if alone
	alone  bool            // there is only group 0
	arg    *batch.Column   // not NULL at rows; nil for COUNT(*) and RATE(*)
	more   []*batch.Column // the other arguments, which may be NULL
	times  []int64         // event times by physical row; nil without a time column
	words  []uint64        // scratch, by physical row
}

// instant is when a result is given.
type instant struct {
	elapsed int64 // ns since the query was armed, or the length of the window
	preview bool  // others will follow
}

// newAccumulator makes the state of f, whose argument (if it has one) is of
// type arg. A small state of fixed size goes into l.
func newAccumulator(f *plan.Agg, arg types.Type, l *lanes) (accumulator, error) {
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
		return newPresents(f)
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

// extended is state for n groups, keeping what there is. Added entries are
// zero, also where the memory was used before.
func extended[T any](state []T, n int) []T {
	if n <= len(state) {
		return state
	}
	old := len(state)
	if n > cap(state) {
		state = slices.Grow(state, max(n, 2*old)-old)
	}
	state = state[:n]
	clear(state[old:])
	return state
}
