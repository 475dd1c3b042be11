package agg

import (
	"cmp"
	"math"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/operators/sort"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func init() {
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newMinMax(arg, f.Fn == "max"), nil
	}, "min", "max")
}

func newMinMax(arg types.Type, largest bool) fold.Accumulator {
	switch arg.Physical() {
	case types.PhysBool:
		return &minMax[uint8]{largest: largest, layout: boolBytes}
	case types.PhysFloat:
		return &minMax[float64]{largest: largest, layout: layout[float64]{floats.read, floats.compare, appendUnsignedZero}}
	case types.PhysCode:
		return &minMax[string]{largest: largest, layout: texts}
	}
	if arg.Unsigned() {
		return &minMax[uint64]{largest: largest, layout: unsigned}
	}
	return &minMax[int64]{largest: largest, layout: integers}
}

// minMax is MIN and MAX. BOOLEANs are the bytes 0 and 1. NaN is larger than every
// number, as in ORDER BY. Zeros are returned without sign, so that the result does
// not depend on the order of rows.
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

// Merge folds in the values of states like rows.
func (a *minMax[T]) Merge(in *fold.Input, state []batch.Column) error {
	in.Arg = &state[0]
	a.Update(in)
	return nil
}

// States counts a state with a value as one value.
func (a *minMax[T]) States(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		a.layout.append(&out[0], a.best[g])
		out[1].Int = append(out[1].Int, one(a.seen[g]))
	}
}

// one returns the number of values in a state that holds a single value.
func one(seen bool) int64 {
	if seen {
		return 1
	}
	return 0
}

// Best implements fold.Extreme.
func (a *minMax[T]) Best(group uint32) (v float64, ok bool) {
	switch x := any(a.best[group]).(type) {
	case int64:
		v = float64(x)
	case uint64:
		v = float64(x)
	}
	return v, a.seen[group]
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

func appendUnsignedZero(out *batch.Column, v float64) { out.Float = append(out.Float, v+0) } // -0 + 0 is 0

// layout moves values of a physical layout in and out of columns.
type layout[T any] struct {
	// read returns the values at rows by physical row; it may use scratch, which it
	// also returns.
	read func(c *batch.Column, rows []uint16, scratch []T) (values, kept []T)
	// compare is a total order.
	compare func(a, b T) int
	append  func(out *batch.Column, v T)
}

var (
	integers = layout[int64]{
		func(c *batch.Column, _ []uint16, s []int64) ([]int64, []int64) { return c.Int, s },
		cmp.Compare[int64],
		func(out *batch.Column, v int64) { out.Int = append(out.Int, v) },
	}
	unsigned = layout[uint64]{
		func(c *batch.Column, _ []uint16, s []uint64) ([]uint64, []uint64) { return c.Uints(), s },
		cmp.Compare[uint64],
		func(out *batch.Column, v uint64) { out.Int = append(out.Int, int64(v)) },
	}
	floats = layout[float64]{
		func(c *batch.Column, _ []uint16, s []float64) ([]float64, []float64) { return c.Float, s },
		compareDoubles,
		func(out *batch.Column, v float64) { out.Float = append(out.Float, v) },
	}
	booleans = layout[bool]{
		func(c *batch.Column, _ []uint16, s []bool) ([]bool, []bool) { return c.Bool, s },
		compareBooleans,
		func(out *batch.Column, v bool) { out.Bool = append(out.Bool, v) },
	}
	anys = layout[any]{
		func(c *batch.Column, _ []uint16, s []any) ([]any, []any) { return c.Any, s },
		func(a, b any) int { return cmp.Compare(rowstore.AnyText(a), rowstore.AnyText(b)) },
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
		cmp.Compare[uint8],
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
		cmp.Compare[string],
		func(out *batch.Column, v string) {
			out.Code = append(out.Code, out.Dict.Code(v))
			out.Values = out.Dict.Values()
		},
	}
)

// compareDoubles orders doubles as ORDER BY does, and -0 before 0.
func compareDoubles(a, b float64) int {
	if c := sort.CompareFloats(a, b); c != 0 || a != 0 {
		return c
	}
	return cmp.Compare(one(math.Signbit(b)), one(math.Signbit(a)))
}

func compareBooleans(a, b bool) int { return cmp.Compare(one(a), one(b)) }
