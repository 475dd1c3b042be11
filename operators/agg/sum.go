package agg

import (
	"math"
	"math/bits"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// int128 is a signed 128-bit integer in two's complement.
type int128 struct {
	hi int64
	lo uint64
}

// add adds x. A sum of up to 2^63 values of 64 bits cannot overflow.
func (s *int128) add(x int64, sign signMask) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, uint64(x), 0)
	s.hi += x>>63&int64(sign) + int64(carry)
}

// signMask is 0 if the top bit of a word is no sign, for UBIGINT, else -1.
type signMask int64

func signOf(t types.Type) signMask {
	if t.Unsigned() {
		return 0
	}
	return -1
}

// word returns the value's 64 bits and whether it fits.
func (s int128) word(sign signMask) (int64, bool) {
	return int64(s.lo), s.hi == int64(s.lo)>>63&int64(sign)
}

// abs returns the magnitude.
func (s int128) abs() (hi, lo uint64, negative bool) {
	if s.hi >= 0 {
		return uint64(s.hi), s.lo, false
	}
	lo, borrow := bits.Sub64(0, s.lo, 0)
	return -uint64(s.hi) - borrow, lo, true
}

// float64 returns the nearest double, within one unit in the last place.
func (s int128) float64() float64 {
	hi, lo, negative := s.abs()
	f := float64(hi)*(1<<64) + float64(lo)
	if negative {
		return -f
	}
	return f
}

// quo returns the value divided by n > 0, rounded to the nearest, halves away from
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

// intSum is SUM and AVG over integers. It is exact and does not depend on the
// order or division of the values, so partial sums of other sites can be added to
// it. Its words are the lower and upper half of the sum, and the number of values.
type intSum struct {
	fold.Lane
	sign signMask
}

func newIntSum(arg types.Type, l *fold.Lanes) intSum {
	return intSum{fold.Lane{Lanes: l, At: l.Reserve(3)}, signOf(arg)}
}

func (a intSum) Update(in *fold.Input) {
	x := in.Arg.Int
	if in.Alone {
		s := a.sum(0)
		for _, r := range in.Rows {
			s.add(x[r], a.sign)
		}
		w := a.Words(0)
		w[0], w[1] = s.lo, uint64(s.hi)
		w[2] += uint64(len(in.Rows))
		return
	}
	if words := a.OneChunk(); words != nil {
		for _, r := range in.Rows {
			i := int(in.Groups[r]) * a.Width
			addTo(words[i:i+3:i+3], x[r], a.sign)
		}
		return
	}
	for _, r := range in.Rows {
		addTo(a.Words(in.Groups[r])[:3], x[r], a.sign)
	}
}

func addTo(w []uint64, v int64, sign signMask) {
	_ = w[2]
	var carry uint64
	w[0], carry = bits.Add64(w[0], uint64(v), 0)
	w[1] += uint64(v>>63&int64(sign)) + carry
	w[2]++
}

func (a intSum) Merge(in *fold.Input, state []batch.Column) error {
	lo, hi, n := state[0].Int, state[1].Int, state[2].Int
	for _, r := range in.Rows {
		w := a.Words(in.Groups[r])[:3]
		var carry uint64
		w[0], carry = bits.Add64(w[0], uint64(lo[r]), 0)
		w[1] += uint64(hi[r]) + carry
		w[2] += uint64(n[r])
	}
	return nil
}

func (a intSum) States(groups []uint32, out []batch.Column) {
	for _, g := range groups {
		w := a.Words(g)[:3]
		for i := range w {
			out[i].Int = append(out[i].Int, int64(w[i]))
		}
	}
}

func (a intSum) sum(g uint32) int128 { w := a.Words(g); return int128{int64(w[1]), w[0]} }

func (a intSum) n(g uint32) int64 { return int64(a.Words(g)[2]) }

// Moments implements fold.Moments.
func (a intSum) Moments(group uint32) (n, sum, squares float64) {
	return float64(a.n(group)), a.sum(group).float64(), 0
}

// floatSum is SUM and AVG over doubles, exact (see fixedSum). Its words are those
// of a fixedSum and the number of values. The most recent rows may be in lanes.
type floatSum struct {
	fold.Lane
	wide  wideDoubles
	lanes *sumLanes
}

func newFloatSum(l *fold.Lanes) floatSum {
	return floatSum{fold.Lane{Lanes: l, At: l.Reserve(5)}, wideDoubles{}, newSumLanes()}
}

func (a floatSum) Grow(n int) {
	if n > maxLaneGroups {
		a.settle()
		a.lanes.groups = nil
		return
	}
	a.lanes.groups = rowstore.Extended(a.lanes.groups, n)
}

func (a floatSum) Update(in *fold.Input) {
	s, x := a.lanes, in.Arg.Float
	if len(s.groups) == 0 {
		a.addAll(in)
		return
	}
	if top, settle := s.next(in, len(s.groups), sumRows); settle {
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

// addAll adds the rows to the words. Nearly all values change the same three
// words; for these the loop makes no call.
func (a floatSum) addAll(in *fold.Input) {
	x, groups, width, others := in.Arg.Float, in.Groups, a.Width, false
	words := a.OneChunk()
	for _, r := range in.Rows {
		b := math.Float64bits(x[r])
		shift := uint(b>>52)&0x7ff - exponentOfUnit
		if words == nil || shift>>6 != 1 {
			others = true
			continue
		}
		i := int(groups[r]) * width
		w := words[i : i+5 : i+5]
		m, sign := b&(hidden-1)|hidden, uint64(int64(b)>>63)
		lo, c := bits.Add64(m<<(shift&63)^sign, sign&1, 0)
		hi := m>>1>>(63-shift&63) ^ sign + c
		w[1], c = bits.Add64(w[1], lo, 0)
		w[2], c = bits.Add64(w[2], hi, c)
		w[3] += sign + c
		w[4]++
	}
	if !others {
		return
	}
	for _, r := range in.Rows {
		if shift := uint(math.Float64bits(x[r])>>52)&0x7ff - exponentOfUnit; words == nil || shift>>6 != 1 {
			a.add(groups[r], x[r])
		}
	}
}

func (a floatSum) add(g uint32, x float64) {
	w := a.Words(g)[:5:5]
	if !addDouble(w, x) {
		a.wide.entry(g).add(x, false)
	}
	w[4]++
}

// settle adds the lanes to the words.
func (a floatSum) settle() {
	if a.lanes.rows == 0 {
		return
	}
	for g := range a.lanes.groups {
		if l := &a.lanes.groups[g]; l.n > 0 {
			a.lanes.settle(l, a.Words(uint32(g)))
		}
	}
	a.lanes.rows = 0
}

func (a floatSum) Reset() {
	clear(a.wide)
	a.lanes.groups, a.lanes.rows = a.lanes.groups[:0], 0
}

func (a floatSum) Merge(in *fold.Input, state []batch.Column) error {
	n, rest := state[4].Int, &state[5]
	for _, r := range in.Rows {
		w := a.Words(in.Groups[r])[:5:5]
		c := uint64(0)
		for i := range 4 {
			w[i], c = bits.Add64(w[i], uint64(state[i].Int[r]), c)
		}
		w[4] += uint64(n[r])
		if !rest.Nulls.Get(int(r)) && !a.wide.merge(in.Groups[r], states.At(rest, r)) {
			return states.ErrNotState
		}
	}
	return nil
}

func (a floatSum) States(groups []uint32, out []batch.Column) {
	a.settle()
	for _, g := range groups {
		w := a.Words(g)[:5]
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

func (a floatSum) sum(g uint32) *fixedSum { return (*fixedSum)(a.Words(g)) }

func (a floatSum) n(g uint32) int64 { return int64(a.Words(g)[4]) }

func init() { define(newSum, "sum") }

func newSum(f *plan.Agg, arg types.Type, l *fold.Lanes) (fold.Accumulator, error) {
	if arg.Physical() == types.PhysFloat {
		return sumFloat{newFloatSum(l)}, nil
	}
	return sumInt{newIntSum(arg, l), f}, nil
}

// sumInt is SUM over BIGINT, UBIGINT and DURATION.
type sumInt struct {
	intSum
	f *plan.Agg
}

func (a sumInt) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		v, fits := a.sum(g).word(a.sign)
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
	a.settle()
	for i, g := range groups {
		if a.n(g) == 0 {
			out.Nulls.Set(i)
		}
		out.Float = append(out.Float, roundedSum(a.sum(g), a.wide[g]))
	}
	return nil
}
