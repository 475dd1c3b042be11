package agg

import (
	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
)

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

func (a count) merge(in *fold.Input, state []batch.Column) {
	n := state[0].Int
	for _, r := range in.Rows {
		a.Words(in.Groups[r])[0] += uint64(n[r])
	}
}

func (a count) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for _, g := range groups {
		out.Int = append(out.Int, int64(a.Words(g)[0]))
	}
	return nil
}
