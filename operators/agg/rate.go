package agg

import (
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func init() {
	define(func(_ *plan.Agg, _ types.Type, l *fold.Lanes) (fold.Accumulator, error) {
		return rowRate{newCount(l)}, nil
	}, "rate")
}

// rowRate is RATE(*): rows per second of the query's life so far, or of the
// window. It is NULL while no time has passed.
type rowRate struct{ count }

func (a rowRate) Output(groups []uint32, out *batch.Column, at fold.Instant) error {
	for i, g := range groups {
		r := 0.0
		if at.Elapsed > 0 {
			r = float64(a.Words(g)[0]) / (float64(at.Elapsed) / 1e9)
		} else {
			out.Nulls.Set(i)
		}
		out.Float = append(out.Float, r)
	}
	return nil
}
