package agg

import (
	"math"
	"math/bits"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// histogram is HISTOGRAM(x) and HISTOGRAM(x, lo, hi, step): a list of [low, high,
// count] of the buckets that are not empty, ascending. A bucket contains low <= x
// < high; NULL as low or high means unbounded. NaNs are ignored.
type histogram struct {
	pairs
	buckets
	typ    types.Type
	rows   []uint16 // scratch: those that are no NaN
	sorted []pair   // scratch
}

// buckets numbers buckets in the order of their values.
type buckets interface {
	// number stores the buckets of c's values at rows in dst, by physical row.
	number(c *batch.Column, rows []uint16, dst []uint64)
	// borders are the values where bucket i begins and ends, of type t.
	borders(i int64, t types.Type) (low, high types.Value)
}

func init() {
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newHistogram(f, arg)
	}, "histogram")
}

func newHistogram(f *plan.Agg, arg types.Type) (fold.Accumulator, error) {
	a := &histogram{typ: arg}
	switch {
	case len(f.Params) == 0 && arg.Physical() == types.PhysFloat:
		a.buckets = floatPowers{}
	case len(f.Params) == 0:
		a.buckets = intPowers{}
	case len(f.Params) != 3:
		return nil, plan.Errorf(-1, -1, "%s: a histogram needs no borders, or lo, hi and step", f)
	default:
		s := steps{parameter(f.Params[0]), parameter(f.Params[1]), parameter(f.Params[2])}
		if n := (s.hi - s.lo) / s.step; !(s.step > 0 && s.hi > s.lo && n < 1<<53) {
			return nil, plan.Errorf(-1, -1, "%s: lo must be less than hi, and the step more than 0", f).WithHint("HISTOGRAM(x, 0, 100, 10)")
		}
		a.buckets = s
		if is, ok := s.integers(); ok && arg.Physical() == types.PhysInt && (is.lo >= 0 || !arg.Unsigned()) {
			is.typ = arg
			a.buckets = is
		}
	}
	return a, nil
}

func (a *histogram) Update(in *fold.Input) {
	rows := in.Rows
	if a.typ.Physical() == types.PhysFloat {
		a.rows = numbersOnly(in.Arg.Float, rows, a.rows[:0])
		rows = a.rows
	}
	a.number(in.Arg, rows, in.Words)
	a.add(rows, in.Groups, in.Words)
}

func (a *histogram) Merge(in *fold.Input, state []batch.Column) error { return a.addCounts(in, state) }

func (a *histogram) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		a.sorted = a.appendGroup(g, a.sorted[:0])
		if len(a.sorted) == 0 {
			out.Nulls.Set(i)
			out.Any = append(out.Any, nil)
			continue
		}
		slices.SortFunc(a.sorted, byWord)
		list := make([]types.Value, len(a.sorted))
		for i, p := range a.sorted {
			low, high := a.borders(int64(p.word), a.typ)
			list[i] = types.ListOf([]types.Value{low, high, types.Int(p.count)})
		}
		out.Any = append(out.Any, list)
	}
	return nil
}

// Buckets implements fold.Buckets.
func (a *histogram) Buckets(group uint32, visit func(bucket, n int64)) {
	a.sorted = a.appendGroup(group, a.sorted[:0])
	for _, p := range a.sorted {
		visit(int64(p.word), p.count)
	}
}

// Borders implements fold.Buckets.
func (a *histogram) Borders(bucket int64) (low, high types.Value) { return a.borders(bucket, a.typ) }

// numbersOnly appends to dst the rows at which x is no NaN.
func numbersOnly(x []float64, rows, dst []uint16) []uint16 {
	for _, r := range rows {
		if v := x[r]; v == v {
			dst = append(dst, r)
		}
	}
	return dst
}

// Bucket returns the number of the bucket of v, an integer, in the state of f, a
// histogram.
func Bucket(f *plan.Agg, v types.Value) int64 {
	h, err := newHistogram(f, v.Type)
	if err != nil {
		panic(err) // the plan was built before
	}
	c := batch.Column{Type: v.Type, Int: []int64{v.I}}
	var word [1]uint64
	h.(*histogram).number(&c, []uint16{0}, word[:])
	return int64(word[0])
}

// intPowers are [0, 1), [1, 2), [2, 4), [4, 8) ... and [-1, 0), [-2, -1),
// [-4, -2) ... The last one has no upper border, since 2^63 is no BIGINT, and 2^64 no
// UBIGINT.
type intPowers struct{}

func (intPowers) number(c *batch.Column, rows []uint16, dst []uint64) {
	for _, r := range rows {
		x := c.Int[r]
		i := int64(bits.Len64(uint64(x)))
		if x < 0 && !c.Type.Unsigned() {
			i = -1 - int64(bits.Len64(uint64(^x)))
		}
		dst[r] = uint64(i)
	}
}

func (intPowers) borders(i int64, t types.Type) (low, high types.Value) {
	low, high = types.Value{Type: t}, types.Value{Type: t}
	switch {
	case i == 0:
		high.I = 1
	case i == 64 || i == 63 && !t.Unsigned():
		low.I, high.IsNull = int64(uint64(1)<<(i-1)), true
	case i > 0:
		low.I, high.I = int64(1<<(i-1)), int64(uint64(1)<<i)
	case i == -1:
		low.I = -1
	default:
		low.I, high.I = -1<<(-i-1), -1<<(-i-2)
	}
	return low, high
}

// floatPowers are [2^(e-1), 2^e) for each exponent, the same mirrored, and one
// for 0 alone, [0, 0]. Infinities count as the largest numbers.
type floatPowers struct{}

// exponentBias makes the bucket of every positive number positive.
const exponentBias = 2000

func (p floatPowers) number(c *batch.Column, rows []uint16, dst []uint64) {
	for _, r := range rows {
		dst[r] = uint64(p.bucket(c.Float[r]))
	}
}

func (floatPowers) bucket(x float64) int64 {
	if x == 0 {
		return 0
	}
	frac, e := math.Frexp(min(math.Abs(x), math.MaxFloat64))
	if x > 0 {
		return int64(e) + exponentBias
	}
	if frac == 0.5 { // -2^(e-1) begins the bucket that ends at -2^(e-2)
		e--
	}
	return -int64(e) - exponentBias
}

func (floatPowers) borders(i int64, t types.Type) (low, high types.Value) {
	low, high = types.Value{Type: t}, types.Value{Type: t}
	switch {
	case i > 0:
		e := int(i - exponentBias)
		low.F, high.F = math.Ldexp(1, e-1), math.Ldexp(1, e)
	case i < 0:
		e := int(-i - exponentBias)
		low.F, high.F = -math.Ldexp(1, e), -math.Ldexp(1, e-1)
	}
	return low, high
}

// steps are [lo, lo+step), [lo+step, lo+2·step) ... up to hi, one for smaller
// values and one for values not below hi.
type steps struct{ lo, hi, step float64 }

const underflow, overflow = -1, math.MaxInt64

func (s steps) number(c *batch.Column, rows []uint16, dst []uint64) {
	if c.Type.Physical() == types.PhysFloat {
		for _, r := range rows {
			dst[r] = uint64(s.bucket(c.Float[r]))
		}
		return
	}
	for _, r := range rows {
		dst[r] = uint64(s.bucket(c.Type.Float(c.Int[r])))
	}
}

func (s steps) bucket(x float64) int64 {
	switch {
	case x < s.lo:
		return underflow
	case x >= s.hi:
		return overflow
	}
	// The quotient may have a rounding error; the borders decide.
	i := int64((x - s.lo) / s.step)
	for i > 0 && x < s.border(i) {
		i--
	}
	for x >= s.border(i+1) {
		i++
	}
	return i
}

func (s steps) border(i int64) float64 { return min(s.lo+float64(i)*s.step, s.hi) }

func (s steps) borders(i int64, t types.Type) (low, high types.Value) {
	low, high = types.NullOf(t), types.NullOf(t)
	if i != underflow {
		low = s.value(i, t)
	}
	if i != overflow {
		high = s.value(i+1, t)
	}
	return low, high
}

func (s steps) value(i int64, t types.Type) types.Value {
	b := s.hi
	if i != overflow {
		b = s.border(i)
	}
	// The integers from 0.5 on are the integers from 1 on.
	switch {
	case t.Unsigned() && b >= 1<<64:
		return types.NullOf(t)
	case t.Unsigned():
		return types.Uint(uint64(math.Ceil(max(b, 0))))
	case t.Physical() == types.PhysInt:
		return types.Value{Type: t, I: int64(math.Ceil(b))}
	}
	return types.Value{Type: t, F: b}
}

// intSteps are steps over integers, exact beyond 2^53.
type intSteps struct {
	lo, hi, step int64
	typ          types.Type
}

func (s steps) integers() (intSteps, bool) {
	for _, f := range []float64{s.lo, s.hi, s.step} {
		if f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return intSteps{}, false
		}
	}
	return intSteps{lo: int64(s.lo), hi: int64(s.hi), step: int64(s.step)}, true
}

func (s intSteps) number(c *batch.Column, rows []uint16, dst []uint64) {
	for _, r := range rows {
		dst[r] = uint64(s.bucket(c.Int[r]))
	}
}

func (s intSteps) bucket(x int64) int64 {
	switch {
	case s.typ.Key(x) < s.typ.Key(s.lo):
		return underflow
	case s.typ.Key(x) >= s.typ.Key(s.hi):
		return overflow
	}
	return int64((uint64(x) - uint64(s.lo)) / uint64(s.step))
}

func (s intSteps) borders(i int64, t types.Type) (low, high types.Value) {
	low, high = types.NullOf(t), types.NullOf(t)
	switch i {
	case underflow:
		high = types.Value{Type: t, I: s.lo}
	case overflow:
		low = types.Value{Type: t, I: s.hi}
	default:
		from := uint64(i) * uint64(s.step)
		low = types.Value{Type: t, I: int64(uint64(s.lo) + from)}
		high = types.Value{Type: t, I: s.hi}
		if left := uint64(s.hi) - uint64(s.lo) - from; left > uint64(s.step) {
			high.I = int64(uint64(s.lo) + from + uint64(s.step))
		}
	}
	return low, high
}
