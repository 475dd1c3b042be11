package agg

import (
	"math"
	"math/big"
	"math/bits"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

func init() {
	define(func(_ *plan.Agg, arg types.Type, l *fold.Lanes) (fold.Accumulator, error) {
		return newAvg(arg, l), nil
	}, "avg")
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newVariance(arg, f.Fn == "stddev"), nil
	}, "stddev", "variance")
}

func newAvg(arg types.Type, l *fold.Lanes) fold.Accumulator {
	if arg.Physical() == types.PhysFloat {
		return avgFloat{newFloatSum(l)}
	}
	return avgInt{newIntSum(arg, l)}
}

// avgInt is AVG over BIGINT and UBIGINT, a DOUBLE, and over DURATION, rounded to ns.
type avgInt struct{ intSum }

func (a avgInt) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		n := a.n(g)
		if n == 0 {
			out.Nulls.Set(i)
			n = 1
		}
		if out.Type.Physical() == types.PhysInt {
			out.Int = append(out.Int, a.sum(g).quo(n))
		} else {
			out.Float = append(out.Float, a.sum(g).float64()/float64(n))
		}
	}
	return nil
}

// avgFloat is AVG over DOUBLE.
type avgFloat struct{ floatSum }

func (a avgFloat) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	a.settle()
	for i, g := range groups {
		n := a.n(g)
		if n == 0 {
			out.Nulls.Set(i)
			n = 1
		}
		out.Float = append(out.Float, roundedMean(a.sum(g), a.wide[g], n))
	}
	return nil
}

func newVariance(arg types.Type, root bool) fold.Accumulator {
	if arg.Physical() == types.PhysFloat {
		return &varianceFloat{root: root, wide: wideDoubles{}, lanes: newVarianceLanes()}
	}
	return &varianceInt{root: root, sign: signOf(arg)}
}

// varianceInt is STDDEV and VARIANCE over integers. It keeps the exact sums of the
// values and of their squares; nothing is rounded before the end. So the result
// depends neither on the order of rows nor on how partial states are merged.
type varianceInt struct {
	state []intMoments
	root  bool
	sign  signMask
	v     bigVariance
}

// intMoments: sums of x (128 bits) and of x² (192 bits), and the number of x.
type intMoments struct {
	int128
	n  int64
	sq [3]uint64 // little-endian
}

func (a *varianceInt) Grow(n int) { a.state = rowstore.Extended(a.state, n) }

func (a *varianceInt) Reset() { a.state = a.state[:0] }

func (a *varianceInt) Update(in *fold.Input) {
	x := in.Arg.Int
	for _, r := range in.Rows {
		s := &a.state[in.Groups[r]]
		v := x[r]
		s.add(v, a.sign)
		s.n++
		negative := v >> 63 & int64(a.sign)
		u := uint64(v ^ negative - negative) // |v|
		hi, lo := bits.Mul64(u, u)
		var c uint64
		s.sq[0], c = bits.Add64(s.sq[0], lo, 0)
		s.sq[1], c = bits.Add64(s.sq[1], hi, c)
		s.sq[2] += c
	}
}

func (a *varianceInt) Merge(in *fold.Input, state []batch.Column) error {
	var w [6]int64
	for _, r := range in.Rows {
		for i := range w {
			w[i] = state[i].Int[r]
		}
		a.state[in.Groups[r]].addWords(w)
	}
	return nil
}

func (a *varianceInt) States(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		for i, w := range a.state[g].words() {
			out[i].Int = append(out[i].Int, w)
		}
	}
}

// Moments implements fold.Moments.
func (a *varianceInt) Moments(group uint32) (n, sum, squares float64) {
	s := &a.state[group]
	for i := range s.sq {
		squares += math.Ldexp(float64(s.sq[i]), 64*i)
	}
	return float64(s.n), s.float64(), squares
}

// words returns the columns of plan.StateFields.
func (s *intMoments) words() [6]int64 {
	return [6]int64{int64(s.lo), s.hi, s.n, int64(s.sq[0]), int64(s.sq[1]), int64(s.sq[2])}
}

// addWords adds the words that words returned.
func (s *intMoments) addWords(w [6]int64) {
	var c uint64
	s.lo, c = bits.Add64(s.lo, uint64(w[0]), 0)
	s.hi += w[1] + int64(c)
	s.n += w[2]
	c = 0
	for i := range s.sq {
		s.sq[i], c = bits.Add64(s.sq[i], uint64(w[3+i]), c)
	}
}

func (a *varianceInt) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		s := &a.state[g]
		if s.n < 2 {
			out.Nulls.Set(i)
		}
		v := a.v.variance(s)
		if a.root {
			v = math.Sqrt(v)
		}
		if err := appendRounded(out, v); err != nil {
			return err
		}
	}
	return nil
}

// appendRounded appends v as out's type: DURATION is rounded to ns.
func appendRounded(out *batch.Column, v float64) error {
	if out.Type.Physical() != types.PhysInt {
		out.Float = append(out.Float, v)
		return nil
	}
	v = math.Round(v)
	if !(math.Abs(v) < 1<<63) {
		return plan.Errorf(-1, -1, "a result does not fit %s", out.Type).WithHint("CAST the argument AS DOUBLE")
	}
	out.Int = append(out.Int, int64(v))
	return nil
}

// bigVariance computes (n·Σx² - (Σx)²) / (n·(n-1)) with exact integers; its
// fields are scratch.
type bigVariance struct{ sq, sum, word big.Int }

func (b *bigVariance) variance(s *intMoments) float64 {
	hi, lo, _ := s.abs()
	b.set(&b.sum, hi, lo)
	b.sum.Mul(&b.sum, &b.sum)
	b.set(&b.sq, s.sq[2], s.sq[1], s.sq[0])
	b.sq.Mul(&b.sq, b.word.SetInt64(s.n))
	b.sq.Sub(&b.sq, &b.sum)
	num, _ := b.sq.Float64()
	return num / float64(max(s.n, 1)) / float64(max(s.n, 2)-1)
}

// set sets x to the number with these words, the most significant first.
func (b *bigVariance) set(x *big.Int, words ...uint64) {
	x.SetUint64(0)
	for _, w := range words {
		x.Lsh(x, 64)
		x.Or(x, b.word.SetUint64(w))
	}
}

// varianceFloat is STDDEV and VARIANCE over DOUBLE, from the exact sums of the
// values and of their squares. It has the precision of DOUBLE, and does not depend
// on the order or division of the values.
type varianceFloat struct {
	state []floatMoments // the most recent rows may be in lanes
	wide  wideDoubles
	lanes varianceLanes
	root  bool
}

type floatMoments struct {
	n   int64
	sum fixedSum
	sq  fixedSquares
}

func (a *varianceFloat) Grow(n int) {
	a.state = rowstore.Extended(a.state, n)
	if n > maxLaneGroups {
		a.settle()
		a.lanes.groups = nil
		return
	}
	a.lanes.groups = rowstore.Extended(a.lanes.groups, n)
}

func (a *varianceFloat) Reset() {
	a.state = a.state[:0]
	clear(a.wide)
	a.lanes.groups, a.lanes.rows = a.lanes.groups[:0], 0
}

// Bytes implements valueHolder.
func (a *varianceFloat) Bytes() int64 { return a.wide.Bytes() }

func (a *varianceFloat) Update(in *fold.Input) {
	s, x := &a.lanes, in.Arg.Float
	if len(s.groups) == 0 {
		for _, r := range in.Rows {
			a.add(in.Groups[r], x[r])
		}
		return
	}
	if top, settle := s.next(in, len(s.groups), varianceRows); settle {
		a.settle()
		s.set(top)
	}
	if s.add(in) == 0 {
		return
	}
	for _, r := range in.Rows {
		if s.outside(x[r]) {
			a.add(in.Groups[r], x[r])
		}
	}
}

// settle adds the lanes to the state.
func (a *varianceFloat) settle() {
	if a.lanes.rows == 0 {
		return
	}
	for g := range a.lanes.groups {
		if l := &a.lanes.groups[g]; l.n > 0 {
			a.lanes.settle(l, &a.state[g])
		}
	}
	a.lanes.rows = 0
}

func (a *varianceFloat) add(g uint32, x float64) {
	s := &a.state[g]
	s.n++
	if addDouble(s.sum[:], x) {
		addSquare(&s.sq, x)
	} else {
		a.wide.entry(g).add(x, true)
	}
}

func (a *varianceFloat) Merge(in *fold.Input, state []batch.Column) error {
	rest := &state[12]
	for _, r := range in.Rows {
		var o floatMoments
		for i := range o.sum {
			o.sum[i] = uint64(state[i].Int[r])
		}
		for i := range o.sq {
			o.sq[i] = uint64(state[5+i].Int[r])
		}
		s := &a.state[in.Groups[r]]
		s.n += state[4].Int[r]
		addMultiword(s.sum[:], o.sum[:])
		addMultiword(s.sq[:], o.sq[:])
		if !rest.Nulls.Get(int(r)) && !a.wide.merge(in.Groups[r], states.At(rest, r)) {
			return states.ErrNotState
		}
	}
	return nil
}

func (a *varianceFloat) States(groups []uint32, out []batch.Column) {
	a.settle()
	for k, g := range groups {
		s := &a.state[g]
		for i, w := range s.sum {
			out[i].Int = append(out[i].Int, int64(w))
		}
		out[4].Int = append(out[4].Int, s.n)
		for i, w := range s.sq {
			out[5+i].Int = append(out[5+i].Int, int64(w))
		}
		appendWide(&out[12], k, a.wide[g])
	}
}

func (a *varianceFloat) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	a.settle()
	for i, g := range groups {
		s, v := &a.state[g], 0.0
		if s.n < 2 {
			out.Nulls.Set(i)
		} else {
			v = roundedVariance(&s.sum, &s.sq, a.wide[g], s.n)
		}
		if a.root {
			v = math.Sqrt(v)
		}
		out.Float = append(out.Float, v)
	}
	return nil
}
