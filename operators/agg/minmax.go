package agg

import (
	"cmp"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

func newMinMax(arg types.Type, largest bool) fold.Accumulator {
	switch arg.Physical() {
	case types.PhysBool:
		return &minMax[uint8]{largest: largest, layout: boolBytes}
	case types.PhysFloat:
		return &minMax[float64]{largest: largest, layout: floats}
	case types.PhysCode:
		return &minMax[string]{largest: largest, layout: texts}
	}
	return &minMax[int64]{largest: largest, layout: integers}
}

// minMax is MIN and MAX. BOOLEANs are the bytes 0 and 1. NaN is larger than
// every number, as in ORDER BY.
type minMax[T cmp.Ordered] struct {
	best    []T
	seen    []bool
	largest bool
	layout  layout[T]
	scratch []T
}

func (a *minMax[T]) Grow(n int) {
	a.best, a.seen = rowstore.Extended(a.best, n), rowstore.Extended(a.seen, n)
}

func (a *minMax[T]) Reset() {
	clear(a.best)
	a.best, a.seen = a.best[:0], a.seen[:0]
}

func (a *minMax[T]) Update(in *fold.Input) {
	var x []T
	x, a.scratch = a.layout.read(in.Arg, in.Rows, a.scratch)
	if a.largest {
		for _, r := range in.Rows {
			g, v := in.Groups[r], x[r]
			if b := a.best[g]; !a.seen[g] || v > b || v != v && b == b {
				a.best[g], a.seen[g] = v, true
			}
		}
		return
	}
	for _, r := range in.Rows {
		g, v := in.Groups[r], x[r]
		if b := a.best[g]; !a.seen[g] || v < b || b != b && v == v {
			a.best[g], a.seen[g] = v, true
		}
	}
}

// merge: the smallest of the smallest. Values are integers (plan.StateFields).
func (a *minMax[T]) merge(in *fold.Input, state []batch.Column) {
	in.Arg = &state[0]
	a.Update(in)
}

func (a *minMax[T]) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if !a.seen[g] {
			out.Nulls.Set(i)
		}
		a.layout.append(out, a.best[g])
	}
	return nil
}

// layout moves values of a physical layout in and out of columns.
type layout[T any] struct {
	// read gives the values at rows by physical row; it may use scratch, which
	// it also returns.
	read   func(c *batch.Column, rows []uint16, scratch []T) (values, kept []T)
	append func(out *batch.Column, v T)
}

var (
	integers = layout[int64]{
		func(c *batch.Column, _ []uint16, s []int64) ([]int64, []int64) { return c.Int, s },
		func(out *batch.Column, v int64) { out.Int = append(out.Int, v) },
	}
	floats = layout[float64]{
		func(c *batch.Column, _ []uint16, s []float64) ([]float64, []float64) { return c.Float, s },
		func(out *batch.Column, v float64) { out.Float = append(out.Float, v) },
	}
	booleans = layout[bool]{
		func(c *batch.Column, _ []uint16, s []bool) ([]bool, []bool) { return c.Bool, s },
		func(out *batch.Column, v bool) { out.Bool = append(out.Bool, v) },
	}
	anys = layout[any]{
		func(c *batch.Column, _ []uint16, s []any) ([]any, []any) { return c.Any, s },
		func(out *batch.Column, v any) { out.Any = append(out.Any, v) },
	}
	boolBytes = layout[uint8]{
		func(c *batch.Column, rows []uint16, s []uint8) ([]uint8, []uint8) {
			s = rowstore.Extended(s, batch.MaxRows)
			for _, r := range rows {
				s[r] = 0
				if c.Bool[r] {
					s[r] = 1
				}
			}
			return s, s
		},
		func(out *batch.Column, v uint8) { out.Bool = append(out.Bool, v != 0) },
	}
	texts = layout[string]{
		func(c *batch.Column, rows []uint16, s []string) ([]string, []string) {
			s = rowstore.Extended(s, batch.MaxRows)
			for _, r := range rows {
				s[r] = c.Values[c.Code[r]]
			}
			return s, s
		},
		func(out *batch.Column, v string) {
			out.Code = append(out.Code, out.Dict.Code(v))
			out.Values = out.Dict.Values()
		},
	}
)
