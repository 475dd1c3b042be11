package operators

import (
	"math/bits"

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
type intSum struct{ lane }

func newIntSum(l *lanes) intSum { return intSum{lane{l, l.reserve(3)}} }

func (a intSum) update(in *folding) {
	x := in.arg.Int
	if in.alone {
		s := a.sum(0)
		for _, r := range in.rows {
			s.add(x[r])
		}
		w := a.of(0)
		w[0], w[1] = s.lo, uint64(s.hi)
		w[2] += uint64(len(in.rows))
		return
	}
	if words := a.single(); words != nil {
		for _, r := range in.rows {
			i := int(in.groups[r]) * a.width
			addTo(words[i:i+3:i+3], x[r])
		}
		return
	}
	for _, r := range in.rows {
		addTo(a.of(in.groups[r])[:3], x[r])
	}
}

func addTo(w []uint64, v int64) {
	_ = w[2]
	var carry uint64
	w[0], carry = bits.Add64(w[0], uint64(v), 0)
	w[1] += uint64(v>>63) + carry
	w[2]++
}

func (a intSum) merge(in *folding, state []batch.Column) error {
	lo, hi, n := state[0].Int, state[1].Int, state[2].Int
	for _, r := range in.rows {
		w := a.of(in.groups[r])[:3]
		var carry uint64
		w[0], carry = bits.Add64(w[0], uint64(lo[r]), 0)
		w[1] += uint64(hi[r]) + carry
		w[2] += uint64(n[r])
	}
	return nil
}

func (a intSum) states(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		w := a.of(g)[:3]
		for i := range w {
			out[i].Int = append(out[i].Int, int64(w[i]))
		}
	}
}

func (a intSum) sum(g uint32) int128 { w := a.of(g); return int128{int64(w[1]), w[0]} }
func (a intSum) n(g uint32) int64    { return int64(a.of(g)[2]) }

// floatSum is SUM and AVG over doubles, exact as fixedSum has it. Its words are
// those of a fixedSum and the number of values.
type floatSum struct {
	lane
	wide wideDoubles
}

func newFloatSum(l *lanes) floatSum { return floatSum{lane{l, l.reserve(5)}, wideDoubles{}} }

func (a floatSum) update(in *folding) {
	x := in.arg.Float
	if in.alone {
		w := a.of(0)[:5:5]
		var sum fixedSum
		copy(sum[:], w)
		for _, r := range in.rows {
			if !addDouble(sum[:], x[r]) {
				a.wide.of(0).add(x[r], false)
			}
		}
		copy(w, sum[:])
		w[4] += uint64(len(in.rows))
		return
	}
	for _, r := range in.rows {
		w := a.of(in.groups[r])[:5:5]
		if !addDouble(w, x[r]) {
			a.wide.of(in.groups[r]).add(x[r], false)
		}
		w[4]++
	}
}

func (a floatSum) reset() { clear(a.wide) }

// bytes implements valueHolder.
func (a floatSum) bytes() int64 { return a.wide.bytes() }

func (a floatSum) merge(in *folding, state []batch.Column) error {
	n, rest := state[4].Int, &state[5]
	for _, r := range in.rows {
		w := a.of(in.groups[r])[:5:5]
		c := uint64(0)
		for i := range 4 {
			w[i], c = bits.Add64(w[i], uint64(state[i].Int[r]), c)
		}
		w[4] += uint64(n[r])
		if !rest.Nulls.Get(int(r)) && !a.wide.merge(in.groups[r], stateAtRow(rest, r)) {
			return errNoState
		}
	}
	return nil
}

func (a floatSum) states(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		w := a.of(g)[:5]
		for i := range w {
			out[i].Int = append(out[i].Int, int64(w[i]))
		}
		appendWide(&out[5], len(out[0].Int)-1, a.wide[g])
	}
}

// appendWide appends the state of d to a column of n rows; NULL if there is none.
func appendWide(out *batch.Column, n int, d *wideDouble) {
	if d == nil {
		out.Append(n, types.NullOf(types.Bytes))
		return
	}
	out.Append(n, types.Value{Type: types.Bytes, S: string(d.encode(nil))})
}

func (a floatSum) sum(g uint32) *fixedSum { return (*fixedSum)(a.of(g)) }
func (a floatSum) n(g uint32) int64       { return int64(a.of(g)[4]) }

func newSum(f *plan.Agg, arg types.Type, l *lanes) accumulator {
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

func (a sumInt) output(groups []uint32, out *batch.Column, _ instant) error {
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

func (a sumFloat) output(groups []uint32, out *batch.Column, _ instant) error {
	for i, g := range groups {
		if a.n(g) == 0 {
			out.Nulls.Set(i)
		}
		out.Float = append(out.Float, roundedSum(a.sum(g), a.wide[g]))
	}
	return nil
}
