package agg

import (
	"encoding/binary"
	"math"
	"math/big"
	"math/bits"
	"slices"
)

// Sums of DOUBLE are exact and rounded once, so they do not depend on the order of
// the values nor on how they are divided into states.
//
// A group has a fixed-point number of 256 bits with the unit 2^-128. A value is
// added as an integer, shifted by its exponent. This covers all values from 2^-76 to
// 2^63, and smaller ones with few digits; 2^63 of them do not overflow. Other values
// are added to a wideDouble, which covers every DOUBLE and exists only in groups that
// need it. Squares are added to 448 bits with the unit 2^-256.
//
// The last values of a group may be in lanes (exact_lanes.go), which are faster.

// fixedSum is a fixed-point number in two's complement, the least significant word
// first, in units of 2^-128.
type fixedSum [4]uint64

// fixedSquares is a fixed-point sum of squares, in units of 2^-256.
type fixedSquares [7]uint64

const (
	fixedUnit = -128
	// exponentOfUnit is the exponent, as encoded in a DOUBLE, of a value whose lowest
	// digit is fixedUnit.
	exponentOfUnit = 1075 + fixedUnit
	// mostShift is the largest shift of a value below 2^63.
	mostShift = 63 - 53 - fixedUnit
	hidden    = 1 << 52 // the digit of a DOUBLE that is not stored
)

// addDouble adds x to the fixedSum w. It reports whether x fits.
func addDouble(w []uint64, x float64) bool {
	_ = w[3]
	b := math.Float64bits(x)
	shift := uint(b>>52)&0x7ff - exponentOfUnit
	if shift > mostShift {
		return b<<1 == 0 // zero, which has no effect
	}
	m, sign := b&(hidden-1)|hidden, uint64(int64(b)>>63)
	lo, hi := m<<(shift&63), m>>1>>(63-shift&63)
	lo, c := bits.Add64(lo^sign, sign&1, 0)
	hi = hi ^ sign + c
	switch shift >> 6 {
	case 0:
		w[0], c = bits.Add64(w[0], lo, 0)
		w[1], c = bits.Add64(w[1], hi, c)
		w[2], c = bits.Add64(w[2], sign, c)
		w[3] += sign + c
	case 1:
		w[1], c = bits.Add64(w[1], lo, 0)
		w[2], c = bits.Add64(w[2], hi, c)
		w[3] += sign + c
	default:
		w[2], c = bits.Add64(w[2], lo, 0)
		w[3] += hi + c
	}
	return true
}

// addSquare adds x² to a fixedSquares. x must fit a fixedSum (addDouble).
func addSquare(w *fixedSquares, x float64) {
	b := math.Float64bits(x)
	if b<<1 == 0 {
		return
	}
	shift := 2 * (uint(b>>52)&0x7ff - exponentOfUnit)
	m := b&(hidden-1) | hidden
	hi, lo := bits.Mul64(m, m)
	s := shift & 63
	top := hi >> 1 >> (63 - s)
	hi, lo = hi<<s|lo>>1>>(63-s), lo<<s
	i := shift >> 6 // at most 4
	var c uint64
	w[i], c = bits.Add64(w[i], lo, 0)
	w[i+1], c = bits.Add64(w[i+1], hi, c)
	w[i+2], c = bits.Add64(w[i+2], top, c)
	for i += 3; c != 0 && i < uint(len(w)); i++ {
		w[i], c = bits.Add64(w[i], 0, c)
	}
}

// addShifted adds v·2^bit to w, which has at least one word above those that
// contain v's digits.
func addShifted(w []uint64, v int64, bit uint) {
	i, s, sign := bit>>6, bit&63, uint64(v>>63)
	var c uint64
	w[i], c = bits.Add64(w[i], uint64(v)<<s, 0)
	w[i+1], c = bits.Add64(w[i+1], uint64(v>>1>>(63-s)), c)
	for i += 2; i < uint(len(w)); i++ {
		w[i], c = bits.Add64(w[i], sign, c)
	}
}

// addMultiword adds from to into. Both have as many words, least significant first.
func addMultiword(into, from []uint64) {
	c := uint64(0)
	for i := range into {
		into[i], c = bits.Add64(into[i], from[i], c)
	}
}

// wideDouble has the sums of any DOUBLEs and of their squares, in units of 2^-1074
// and 2^-2148, in two's complement.
type wideDouble struct {
	sum [34]uint64
	sq  [67]uint64
	// special has a bit for each of NaN and the infinities that occurred.
	special byte
}

const (
	wideUnit = -1074
	wideSize = 8*(34+67) + 8
)

const (
	hasNaN byte = 1 << iota
	hasInf
	hasNegInf
)

// add adds x, and its square if square is set.
func (d *wideDouble) add(x float64, square bool) {
	switch {
	case x != x:
		d.special |= hasNaN
		return
	case math.IsInf(x, 1):
		d.special |= hasInf
		return
	case math.IsInf(x, -1):
		d.special |= hasNegInf
		return
	}
	b := math.Float64bits(x)
	m, e := b&(hidden-1), uint(b>>52)&0x7ff
	if e > 0 { // else it is subnormal
		m |= hidden
		e--
	}
	addAt(d.sum[:], 0, m, e, b>>63 != 0)
	if square {
		hi, lo := bits.Mul64(m, m)
		addAt(d.sq[:], hi, lo, 2*e, false)
	}
}

// addAt adds hi·2^64 + lo, shifted left by bit.
func addAt(w []uint64, hi, lo uint64, bit uint, negative bool) {
	s, i := bit&63, bit>>6
	v := [3]uint64{lo << s, hi<<s | lo>>1>>(63-s), hi >> 1 >> (63 - s)}
	var c uint64
	if negative {
		for _, x := range v {
			w[i], c = bits.Sub64(w[i], x, c)
			if i++; i == uint(len(w)) {
				return
			}
		}
		for ; c != 0 && i < uint(len(w)); i++ {
			w[i], c = bits.Sub64(w[i], 0, c)
		}
		return
	}
	for _, x := range v {
		w[i], c = bits.Add64(w[i], x, c)
		if i++; i == uint(len(w)) {
			return
		}
	}
	for ; c != 0 && i < uint(len(w)); i++ {
		w[i], c = bits.Add64(w[i], 0, c)
	}
}

// merge adds o.
func (d *wideDouble) merge(o *wideDouble) {
	addMultiword(d.sum[:], o.sum[:])
	addMultiword(d.sq[:], o.sq[:])
	d.special |= o.special
}

// value returns the sum, or the mean, if NaN or an infinity occurred.
func (d *wideDouble) value() (v float64, ok bool) {
	switch {
	case d.special == 0:
		return 0, false
	case d.special == hasInf:
		return math.Inf(1), true
	case d.special == hasNegInf:
		return math.Inf(-1), true
	}
	return math.NaN(), true
}

// wideVersion is the first byte of a wideDouble's state.
const wideVersion = 1

// encode appends the state: the version, special, and then for each number where its
// words begin that are not 0, how many there are up to those that repeat the sign,
// and these.
func (d *wideDouble) encode(to []byte) []byte {
	to = append(to, wideVersion, d.special)
	for _, w := range [][]uint64{d.sum[:], d.sq[:]} {
		first, end := 0, len(w)
		for first < end && w[first] == 0 {
			first++
		}
		for end > first+1 && w[end-1] == uint64(int64(w[end-2])>>63) {
			end--
		}
		to = binary.AppendUvarint(to, uint64(first))
		to = binary.AppendUvarint(to, uint64(end-first))
		for _, x := range w[first:end] {
			to = binary.LittleEndian.AppendUint64(to, x)
		}
	}
	return to
}

// decode reads the output of encode. It reports whether b is valid.
func (d *wideDouble) decode(b []byte) bool {
	if len(b) < 2 || b[0] != wideVersion {
		return false
	}
	d.special, b = b[1], b[2:]
	for _, w := range [][]uint64{d.sum[:], d.sq[:]} {
		first, n := binary.Uvarint(b)
		if n <= 0 {
			return false
		}
		count, k := binary.Uvarint(b[n:])
		if b = b[max(n+k, 0):]; k <= 0 || first > uint64(len(w)) || count > uint64(len(w))-first || uint64(len(b)) < 8*count {
			return false
		}
		for i := range count {
			w[first+i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		b = b[8*count:]
		if count > 0 {
			sign := uint64(int64(w[first+count-1]) >> 63)
			for i := first + count; i < uint64(len(w)); i++ {
				w[i] = sign
			}
		}
	}
	return len(b) == 0
}

// wideDoubles maps groups to their wideDouble, if they need one.
type wideDoubles map[uint32]*wideDouble

func (m wideDoubles) entry(group uint32) *wideDouble {
	d := m[group]
	if d == nil {
		d = &wideDouble{}
		m[group] = d
	}
	return d
}

// Bytes estimates the memory in use.
func (m wideDoubles) Bytes() int64 { return int64(len(m)) * (wideSize + 32) }

// merge adds an encoded wideDouble to a group. It reports whether state is valid.
func (m wideDoubles) merge(group uint32, state []byte) bool {
	var d wideDouble
	if !d.decode(state) {
		return false
	}
	m.entry(group).merge(&d)
	return true
}

// roundedSum returns the DOUBLE nearest to the exact sum.
func roundedSum(w *fixedSum, wide *wideDouble) float64 {
	if wide == nil {
		v, negative := absolute(w[:])
		return rounded(v, fixedUnit, false, negative)
	}
	if v, ok := wide.value(); ok {
		return v
	}
	sum := wideInt(w[:], fixedUnit, wide.sum[:], wideUnit)
	f := new(big.Float).SetInt(sum)
	v, _ := f.SetMantExp(f, wideUnit).Float64()
	return v
}

// roundedMean returns the nearest DOUBLE to the exact sum divided by n > 0.
func roundedMean(w *fixedSum, wide *wideDouble, n int64) float64 {
	if wide == nil {
		v, negative := absolute(w[:])
		// 128 bits more, so that the least one has all digits that matter.
		var q [6]uint64
		copy(q[2:], v)
		rest := divide(q[:], uint64(n))
		return rounded(q[:], fixedUnit-128, rest != 0, negative)
	}
	if v, ok := wide.value(); ok {
		return v
	}
	return quotient(wideInt(w[:], fixedUnit, wide.sum[:], wideUnit), big.NewInt(n), wideUnit)
}

// roundedVariance returns the nearest DOUBLE to (n·Σx² - (Σx)²) / (n·(n-1)), n > 1.
func roundedVariance(sum *fixedSum, sq *fixedSquares, wide *wideDouble, n int64) float64 {
	if wide == nil {
		v, _ := absolute(sum[:])
		var num, square [8]uint64
		multiply(num[:], sq[:], []uint64{uint64(n)})
		multiply(square[:], v, v)
		c := uint64(0)
		for i := range num {
			num[i], c = bits.Sub64(num[i], square[i], c)
		}
		var q [11]uint64 // 192 bits more
		copy(q[3:], num[:])
		rest := divide(q[:], uint64(n))
		rest |= divide(q[:], uint64(n-1))
		return rounded(q[:], 2*fixedUnit-192, rest != 0, false)
	}
	if wide.special != 0 {
		return math.NaN()
	}
	num := wideInt(sq[:], 2*fixedUnit, wide.sq[:], 2*wideUnit)
	s := wideInt(sum[:], fixedUnit, wide.sum[:], wideUnit)
	num.Mul(num, big.NewInt(n))
	num.Sub(num, s.Mul(s, s))
	den := big.NewInt(n)
	return quotient(num, den.Mul(den, big.NewInt(n-1)), 2*wideUnit)
}

// quotient returns the nearest DOUBLE to x / n · 2^unit.
func quotient(x, n *big.Int, unit int) float64 {
	n.Lsh(n, uint(-unit))
	v, _ := new(big.Rat).SetFrac(x, n).Float64()
	return v
}

// wideInt returns the sum of w, in units of 2^unit, and v, in units of 2^wide, in
// the latter unit.
func wideInt(w []uint64, unit int, v []uint64, wide int) *big.Int {
	x := signedInt(w)
	x.Lsh(x, uint(unit-wide))
	return x.Add(x, signedInt(v))
}

func signedInt(w []uint64) *big.Int {
	v, negative := absolute(w)
	x, word := new(big.Int), new(big.Int)
	for _, u := range slices.Backward(v) {
		x.Lsh(x, 64)
		x.Or(x, word.SetUint64(u))
	}
	if negative {
		x.Neg(x)
	}
	return x
}

// absolute returns the magnitude of w, a number in two's complement. It may return w.
func absolute(w []uint64) (v []uint64, negative bool) {
	if int64(w[len(w)-1]) >= 0 {
		return w, false
	}
	v = make([]uint64, len(w))
	c := uint64(0)
	for i := range w {
		v[i], c = bits.Sub64(0, w[i], c)
	}
	return v, true
}

// divide divides q by n in place and returns the remainder.
func divide(q []uint64, n uint64) (rest uint64) {
	for i := len(q) - 1; i >= 0; i-- {
		q[i], rest = bits.Div64(rest, q[i], n)
	}
	return rest
}

// multiply stores the product of x and y in dst, which must be 0. It drops the words
// that do not fit.
func multiply(dst, x, y []uint64) {
	for i, a := range x {
		carry := uint64(0)
		for k := 0; k < len(y) && i+k < len(dst); k++ {
			hi, lo := bits.Mul64(a, y[k])
			lo, c := bits.Add64(lo, carry, 0)
			hi += c
			dst[i+k], c = bits.Add64(dst[i+k], lo, 0)
			carry = hi + c
		}
		if i+len(y) < len(dst) {
			dst[i+len(y)] += carry
		}
	}
}

// rounded returns the DOUBLE nearest to v·2^unit, ties to even. more means that the
// exact value is slightly larger. The result must not be subnormal.
func rounded(v []uint64, unit int, more, negative bool) float64 {
	top := len(v) - 1
	for top > 0 && v[top] == 0 {
		top--
	}
	m := v[top]
	if m == 0 {
		return 0
	}
	s := uint(bits.LeadingZeros64(m))
	m <<= s
	below := uint64(0)
	if top > 0 {
		m |= v[top-1] >> 1 >> (63 - s)
		below = v[top-1] << s
		for _, w := range v[:top-1] {
			below |= w
		}
	}
	if below != 0 || more {
		m |= 1 // 11 bits are rounded off: lower bits matter only for a half
	}
	f := math.Ldexp(float64(m), 64*top-int(s)+unit)
	if negative {
		return -f
	}
	return f
}
