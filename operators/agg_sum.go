package operators

import (
	"math/bits"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
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

// intSum is the state of SUM and AVG over integers: exact, and the same in
// whatever order and pieces the values come, so that partial sums of other
// sites can be added to it.
type intSum struct {
	int128
	n int64
}

// intSums is the array of them.
type intSums struct{ state []intSum }

func (a *intSums) grow(n int) { a.state = extended(a.state, n) }
func (a *intSums) reset()     { a.state = a.state[:0] }

func (a *intSums) update(in *folding) {
	x := in.arg.Int
	if in.alone {
		s := a.state[0]
		for _, r := range in.rows {
			s.add(x[r])
		}
		s.n += int64(len(in.rows))
		a.state[0] = s
		return
	}
	for _, r := range in.rows {
		s := &a.state[in.groups[r]]
		s.add(x[r])
		s.n++
	}
}

// floatSum is the state of SUM and AVG over doubles, added in order of arrival.
type floatSum struct {
	sum float64
	n   int64
}

type floatSums struct{ state []floatSum }

func (a *floatSums) grow(n int) { a.state = extended(a.state, n) }
func (a *floatSums) reset()     { a.state = a.state[:0] }

func (a *floatSums) update(in *folding) {
	x := in.arg.Float
	for _, r := range in.rows {
		s := &a.state[in.groups[r]]
		s.sum += x[r]
		s.n++
	}
}

func newSum(f *plan.Agg, arg batch.Type) accumulator {
	if arg.Physical() == batch.PhysFloat {
		return &sumFloat{}
	}
	return &sumInt{f: f}
}

// sumInt is SUM over BIGINT and DURATION.
type sumInt struct {
	intSums
	f *plan.Agg
}

func (a *sumInt) output(groups []uint32, out *batch.Column, _ instant) error {
	for i, g := range groups {
		s := &a.state[g]
		v, fits := s.int64()
		if !fits {
			x := a.f.Args[0].String()
			return plan.Errorf(-1, -1, "SUM(%s) does not fit %s", x, a.f.T).WithHint("SUM(CAST(%s AS DOUBLE))", x)
		}
		if s.n == 0 {
			out.Nulls.Set(i)
		}
		out.Int = append(out.Int, v)
	}
	return nil
}

// sumFloat is SUM over DOUBLE.
type sumFloat struct{ floatSums }

func (a *sumFloat) output(groups []uint32, out *batch.Column, _ instant) error {
	for i, g := range groups {
		if a.state[g].n == 0 {
			out.Nulls.Set(i)
		}
		out.Float = append(out.Float, a.state[g].sum)
	}
	return nil
}
