package agg

import (
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func init() {
	define(func(f *plan.Agg, arg types.Type, l *fold.Lanes) (fold.Accumulator, error) {
		if f.Distinct {
			return newCountDistinct(arg), nil
		}
		return newCount(l), nil
	}, "count")
}

// count is COUNT(*) and COUNT(x): NULLs do not reach it.
type count struct{ fold.Lane }

func newCount(l *fold.Lanes) count { return count{fold.Lane{Lanes: l, At: l.Reserve(1)}} }

func (a count) Update(in *fold.Input) {
	if in.Alone {
		a.Words(0)[0] += uint64(len(in.Rows))
		return
	}
	if words := a.OneChunk(); words != nil {
		for _, r := range in.Rows {
			words[int(in.Groups[r])*a.Width]++
		}
		return
	}
	for _, r := range in.Rows {
		a.Words(in.Groups[r])[0]++
	}
}

func (a count) Merge(in *fold.Input, state []batch.Column) error {
	n := state[0].Int
	for _, r := range in.Rows {
		a.Words(in.Groups[r])[0] += uint64(n[r])
	}
	return nil
}

func (a count) States(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		out[0].Int = append(out[0].Int, int64(a.Words(g)[0]))
	}
}

// Moments implements fold.Moments.
func (a count) Moments(group uint32) (n, sum, squares float64) {
	return float64(a.Words(group)[0]), 0, 0
}

func (a count) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for _, g := range groups {
		out.Int = append(out.Int, int64(a.Words(g)[0]))
	}
	return nil
}
