package operators

import (
	"math"
	"math/bits"
	"sync"

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
	if words := a.single(); words != nil {
		a.updateSingle(in, words)
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

// updateSingle is update where the words of all groups lie in one chunk. Nearly all
// values change the same words; it is without a call for these.
func (a floatSum) updateSingle(in *folding, words []uint64) {
	s := shiftedPool.Get().(*shiftedDoubles)
	defer shiftedPool.Put(s)
	others := s.shift(in)
	if in.alone {
		s.addAll(words[:5:5], len(in.rows))
	} else {
		groups, width := in.groups, a.width
		for k, r := range in.rows {
			i := int(groups[r]) * width
			w := words[i : i+5 : i+5]
			var c uint64
			w[1], c = bits.Add64(w[1], s.lo[k&(batch.MaxRows-1)], 0)
			h := s.hi[k&(batch.MaxRows-1)]
			w[2], c = bits.Add64(w[2], h, c)
			w[3] += uint64(int64(h)>>63) + c
			w[4]++
		}
	}
	for _, r := range others {
		g := in.groups[r]
		if x := in.arg.Float[r]; !addDouble(words[int(g)*a.width:], x) {
			a.wide.of(g).add(x, false)
		}
	}
}

// shiftedDoubles are values as fixedSum has them, from its second word on.
type shiftedDoubles struct {
	lo, hi [batch.MaxRows]uint64
	others [batch.MaxRows]uint16
}

var shiftedPool = sync.Pool{New: func() any { return &shiftedDoubles{} }}

// addAll adds the first n to one group.
func (s *shiftedDoubles) addAll(w []uint64, n int) {
	w1, w2, w3 := w[1], w[2], w[3]
	for k := range n {
		var c uint64
		w1, c = bits.Add64(w1, s.lo[k&(batch.MaxRows-1)], 0)
		h := s.hi[k&(batch.MaxRows-1)]
		w2, c = bits.Add64(w2, h, c)
		w3 += uint64(int64(h)>>63) + c
	}
	w[1], w[2], w[3] = w1, w2, w3
	w[4] += uint64(n)
}

// shift makes lo and hi those of the rows, and returns the rows that have other words,
// of which they are 0.
func (s *shiftedDoubles) shift(in *folding) (others []uint16) {
	x, n := in.arg.Float, 0
	for k, r := range in.rows {
		b := math.Float64bits(x[r])
		shift := uint(b>>52)&0x7ff - exponentOfUnit
		m, sign := b&(hidden-1)|hidden, uint64(int64(b)>>63)
		if shift>>6 != 1 {
			s.others[n&(batch.MaxRows-1)] = r
			n++
			m, sign = 0, 0
		}
		lo, c := bits.Add64(m<<(shift&63)^sign, sign&1, 0)
		s.lo[k&(batch.MaxRows-1)] = lo
		s.hi[k&(batch.MaxRows-1)] = m>>1>>(63-shift&63) ^ sign + c
	}
	return s.others[:n]
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
