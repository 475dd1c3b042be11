package operators

import "endoscope/operators/batch"

// count is COUNT(*) and COUNT(x): NULLs do not reach it.
type count struct{ n []int64 }

func (a *count) grow(n int) { a.n = extended(a.n, n) }
func (a *count) reset()     { a.n = a.n[:0] }

func (a *count) update(in *folding) {
	if in.alone {
		a.n[0] += int64(len(in.rows))
		return
	}
	for _, r := range in.rows {
		a.n[in.groups[r]]++
	}
}

func (a *count) output(groups []uint32, out *batch.Column, _ instant) error {
	for _, g := range groups {
		out.Int = append(out.Int, a.n[g])
	}
	return nil
}
