package agg

import (
	"endoscope/operators/agg/encode"
	"endoscope/operators/agg/fold"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// constructor creates the state of f, whose argument (if it has one) is of type
// arg. A small state of fixed size is placed in l.
type constructor func(f *plan.Agg, arg types.Type, l *fold.Lanes) (fold.Accumulator, error)

var constructors = map[string]constructor{}

// define registers aggregate functions. The file of each function calls it.
func define(c constructor, names ...string) {
	for _, name := range names {
		constructors[name] = c
	}
}

func init() {
	define(func(f *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) { return encode.NewPresents(f) },
		"live_objects", "invocation_tree", "wait_graph", "object_graph")
}

func newAccumulator(f *plan.Agg, arg types.Type, l *fold.Lanes) (fold.Accumulator, error) {
	c := constructors[f.Fn]
	if c == nil {
		return nil, plan.Errorf(-1, -1, "there is no aggregate function %s", f.Fn)
	}
	return c(f, arg, l)
}

// parameter returns a numeric parameter as a float.
func parameter(v types.Value) float64 {
	if v.Type.Physical() == types.PhysFloat {
		return v.F
	}
	return float64(v.I)
}
