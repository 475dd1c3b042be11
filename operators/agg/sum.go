package agg

import (
	"math"
	"math/bits"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// int128 is a signed 128-bit integer in two's complement.
type int128 struct {
	hi int64
	lo uint64
}

// add adds x. A sum of up to 2^64 values of 64 bits cannot overflow.
func (s *int128) add(x int64) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(x), 0)
	s.hi += x>>63 + int64(carry)
}

// int64 is the value and whether it fits.
func (s int128) int64() (int64, bool) { return int64(s.lo), s.hi == int64(s.lo)>>63 }

// abs is the magnitude.
func (s int128) abs() (hi, lo uint64, negative bool) {
	if s.hi >= 0 {
		return uint64(s.hi), s.lo, false
	}
	lo, borrow := bits.Sub64(0, s.lo, 0)
	return -uint64(s.hi) - borrow, lo, true
}

// float64 is the nearest double, within one unit in the last place.
func (s int128) float64() float64 {
	hi, lo, negative := s.abs()
	f := float64(hi)*(1<<64) + float64(lo)
	if negative {
		return -f
	}
	return f
}

// quo is the value divided by n > 0, rounded to the nearest, halves away from
// zero. It must be a mean of n 64-bit values, so that it fits.
func (s int128) quo(n int64) int64 {
	hi, lo, negative := s.abs()
	q, r := bits.Div64(hi, lo, uint64(n))
	if r >= uint64(n)-r {
		q++
	}
	if negative {
		return -int64(q)
	}
	return int64(q)
}

// intSum is SUM and AVG over integers: exact, and the same in whatever order
// and pieces the values come, so that partial sums of other sites can be added
// to it. Its words are the sum's lower and upper half, and the number of values.
type intSum struct{ fold.Lane }

func newIntSum(l *fold.Lanes) intSum { return intSum{fold.Lane{Lanes: l, At: l.Reserve(3)}} }

func (a intSum) Update(in *fold.Input) {
	x := in.Arg.Int
	if in.Alone {
		s := a.sum(0)
		for _, r := range in.Rows {
			s.add(x[r])
		}
		w := a.Words(0)
		w[0], w[1] = s.lo, uint64(s.hi)
		w[2] += uint64(len(in.Rows))
		return
	}
	if words := a.OneChunk(); words != nil {
		for _, r := range in.Rows {
			i := int(in.Groups[r]) * a.Width
			addTo(words[i:i+3:i+3], x[r])
		}
		return
	}
	for _, r := range in.Rows {
		addTo(a.Words(in.Groups[r])[:3], x[r])
	}
}

func addTo(w []uint64, v int64) {
	_ = w[2]
	var carry uint64
	w[0], carry = bits.Add64(w[0], uint64(v), 0)
	w[1] += uint64(v>>63) + carry
	w[2]++
}

func (a intSum) merge(in *fold.Input, state []batch.Column) {
	lo, hi, n := state[0].Int, state[1].Int, state[2].Int
	for _, r := range in.Rows {
		w := a.Words(in.Groups[r])[:3]
		var carry uint64
		w[0], carry = bits.Add64(w[0], uint64(lo[r]), 0)
		w[1] += uint64(hi[r]) + carry
		w[2] += uint64(n[r])
	}
}

func (a intSum) sum(g uint32) int128 { w := a.Words(g); return int128{int64(w[1]), w[0]} }

func (a intSum) n(g uint32) int64 { return int64(a.Words(g)[2]) }

// floatSum is SUM and AVG over doubles, added in order of arrival. Its words
// are the sum's bits and the number of values.
type floatSum struct{ fold.Lane }

func newFloatSum(l *fold.Lanes) floatSum { return floatSum{fold.Lane{Lanes: l, At: l.Reserve(2)}} }

func (a floatSum) Update(in *fold.Input) {
	x := in.Arg.Float
	for _, r := range in.Rows {
		w := a.Words(in.Groups[r])[:2]
		w[0] = math.Float64bits(math.Float64frombits(w[0]) + x[r])
		w[1]++
	}
}

func (a floatSum) sum(g uint32) float64 { return math.Float64frombits(a.Words(g)[0]) }

func (a floatSum) n(g uint32) int64 { return int64(a.Words(g)[1]) }

func newSum(f *plan.Agg, arg types.Type, l *fold.Lanes) fold.Accumulator {
	if arg.Physical() == types.PhysFloat {
		return sumFloat{newFloatSum(l)}
	}
	return sumInt{newIntSum(l), f}
}

// sumInt is SUM over BIGINT and DURATION.
type sumInt struct {
	intSum
	f *plan.Agg
}

func (a sumInt) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		v, fits := a.sum(g).int64()
		if !fits {
			x := a.f.Args[0].String()
			return plan.Errorf(-1, -1, "SUM(%s) does not fit %s", x, a.f.T).WithHint("SUM(CAST(%s AS DOUBLE))", x)
		}
		if a.n(g) == 0 {
			out.Nulls.Set(i)
		}
		out.Int = append(out.Int, v)
	}
	return nil
}

// sumFloat is SUM over DOUBLE.
type sumFloat struct{ floatSum }

func (a sumFloat) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if a.n(g) == 0 {
			out.Nulls.Set(i)
		}
		out.Float = append(out.Float, a.sum(g))
	}
	return nil
}
