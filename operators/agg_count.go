package operators

import "endoscope/operators/batch"

// count is COUNT(*) and COUNT(x): NULLs do not reach it.
type count struct{ lane }

func newCount(l *lanes) count { return count{lane{l, l.reserve(1)}} }

func (a count) update(in *folding) {
	if in.alone {
		a.of(0)[0] += uint64(len(in.rows))
		return
	}
	if words := a.single(); words != nil {
		for _, r := range in.rows {
			words[int(in.groups[r])*a.width]++
		}
		return
	}
	for _, r := range in.rows {
		a.of(in.groups[r])[0]++
	}
}

func (a count) merge(in *folding, state []batch.Column) error {
	n := state[0].Int
	for _, r := range in.rows {
		a.of(in.groups[r])[0] += uint64(n[r])
	}
	return nil
}

func (a count) states(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		out[0].Int = append(out[0].Int, int64(a.of(g)[0]))
	}
}

func (a count) output(groups []uint32, out *batch.Column, _ instant) error {
	for _, g := range groups {
		out.Int = append(out.Int, int64(a.of(g)[0]))
	}
	return nil
}
