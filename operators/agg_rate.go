package operators

import "endoscope/operators/batch"

// rowRate is RATE(*): rows per second of the query's life so far, or of the
// window. It is NULL while no time has passed.
type rowRate struct{ count }

func (a rowRate) output(groups []uint32, out *batch.Column, at instant) error {
	for i, g := range groups {
		r := 0.0
		if at.elapsed > 0 {
			r = float64(a.of(g)[0]) / (float64(at.elapsed) / 1e9)
		} else {
			out.Nulls.Set(i)
		}
		out.Float = append(out.Float, r)
	}
	return nil
}
