package agg

import (
	"math"

	"endoscope/operators/agg/fold"
)

// If there are few groups, doubles are first added to lanes: integers of 64 bits,
// whose carries are propagated to the fixed-point number only after some batches.
// A lane has a unit, which is the same for all groups. To round x to a multiple of
// the unit, 1.5·2^52 units are added: the sum is rounded to a multiple of the
// unit, and its bits, as an integer, are a constant plus the number of units. The
// difference of x from this multiple is exact and is added to the next lane. So a
// value costs a few additions, without branches, and none of them loses digits.
//
// The lanes cover a window of exponents. Values outside it are added to the
// fixed-point number at once. The window is inside the range of a fixedSum, so
// that the state does not depend on how a value was added.

const (
	// maxLaneGroups is the largest number of groups for which there are lanes: with
	// more of them, propagating the carries takes longer than it saves.
	maxLaneGroups = 1024
	// maxTop is the exponent of the first value too large for a fixedSum.
	maxTop = 63
)

// window is the exponents that lanes cover.
type window struct {
	octaves int    // how many
	top     int    // values are smaller than 2^top
	least   uint64 // bits of the smallest value, shifted left by 1
	size    uint64 // the same of 2^top, less least
}

// outside reports whether x is not in w. Zero is in every window.
func (w *window) outside(x float64) bool {
	u := math.Float64bits(x) << 1
	return u-w.least >= w.size && u != 0
}

// middle returns the top of a window around the mean exponent of the rows' values. It
// reports false if no value fits a fixedSum.
func (w *window) middle(in *fold.Input) (top int, ok bool) {
	n, sum := 0, 0
	for _, r := range in.Rows {
		e := int(math.Float64bits(in.Arg.Float[r])>>52)&0x7ff - 1023
		if e < maxTop && e-52 >= fixedUnit {
			n++
			sum += e
		}
	}
	if n == 0 {
		return 0, false
	}
	top = sum/n + (w.octaves+1)/2 + 1
	return min(max(top, w.octaves+52+fixedUnit), maxTop), true
}

// set moves the window.
func (w *window) set(top int) {
	w.top = top
	w.least = uint64(1023+top-w.octaves) << 53
	w.size = uint64(w.octaves) << 53
}

// lanes is the window, and when carries are to be propagated.
type lanes struct {
	window
	rows   int  // that were added since
	missed bool // a quarter of the last rows was outside the window, or there were none
}

// next reports whether carries must be propagated before rows are added, and
// returns the top of the window from then on. They must be if there may be more
// than most rows, or if the window moves. It moves only if this takes little of
// the time, and not for a few octaves.
func (l *lanes) next(in *fold.Input, groups, most int) (top int, settle bool) {
	if l.missed && (l.rows == 0 || l.rows > 4*groups) {
		if top, ok := l.middle(in); ok && max(top-l.top, l.top-top) > 4 {
			return top, true
		}
	}
	return l.top, l.rows+len(in.Rows) > most
}

// added counts rows.
func (l *lanes) added(rows, outside int) {
	l.rows += rows
	l.missed = outside > rows/4
}

// cutter returns the number that cuts multiples of 2^unit.
func cutter(unit int) float64 { return math.Ldexp(1.5, 52+unit) }

// addLane adds v·2^bit to w, where v is the units in the sum of n results of cut.
func addLane(w []uint64, sum uint64, n int64, cut float64, bit int) {
	addShifted(w, int64(sum-uint64(n)*math.Float64bits(cut)), uint(bit))
}

// The lanes of a sum cover 47 octaves. Values have 99 bits then, in two lanes.
// 2^14 values of 2^49 units do not overflow.
const (
	sumOctaves = 47
	sumLane0   = 49
	sumLane1   = sumLane0 + 50
	sumRows    = 1<<14 - 1
)

// sumLanes are the lanes of sums.
type sumLanes struct {
	lanes
	groups []sumLane
	cut    [2]float64
}

type sumLane struct {
	n   int64
	sum [2]uint64
}

func newSumLanes() *sumLanes {
	s := &sumLanes{}
	s.octaves, s.missed = sumOctaves, true
	s.set(sumOctaves / 2)
	return s
}

// add adds the rows to their groups and returns how many are outside the window,
// which it leaves out.
func (s *sumLanes) add(in *fold.Input) (outside int) {
	x, groups, lanes := in.Arg.Float, in.Groups, s.groups
	cut0, cut1, least, size := s.cut[0], s.cut[1], s.least, s.size
	for _, r := range in.Rows {
		v := x[r]
		if u := math.Float64bits(v) << 1; u-least >= size && u != 0 {
			outside++
			continue
		}
		l := &lanes[groups[r]]
		t := v + cut0
		l.n++
		l.sum[0] += math.Float64bits(t)
		l.sum[1] += math.Float64bits(v - (t - cut0) + cut1)
	}
	s.added(len(in.Rows), outside)
	return outside
}

// settle adds a lane to the words of a floatSum and clears it.
func (s *sumLanes) settle(l *sumLane, w []uint64) {
	addLane(w[:4], l.sum[0], l.n, s.cut[0], s.top-sumLane0-fixedUnit)
	addLane(w[:4], l.sum[1], l.n, s.cut[1], s.top-sumLane1-fixedUnit)
	w[4] += uint64(l.n)
	*l = sumLane{}
}

// set moves the window. The lanes must be clear.
func (s *sumLanes) set(top int) {
	s.window.set(top)
	s.cut = [2]float64{cutter(top - sumLane0), cutter(top - sumLane1)}
}

// The lanes of a variance cover 24 octaves. A square has 152 bits then, in three
// lanes; it is the sum of its rounding to a DOUBLE, which is a multiple of the second
// lane's unit, and of an error of at most 2^-53 of it, cut at the second and third.
// 2^13 values of 2^50 units do not overflow; the errors add an eighth to the second.
const (
	varianceOctaves = 24
	varianceLane0   = 50
	varianceLane1   = varianceOctaves + 52
	squareLane0     = 50
	squareLane1     = squareLane0 + 51
	squareLane2     = squareLane1 + 51
	varianceRows    = 7 << 10
)

// varianceLanes are the lanes of sums and of sums of squares.
type varianceLanes struct {
	lanes
	groups []varianceLane
	cut    [2]float64
	cutSq  [3]float64
}

type varianceLane struct {
	n   int64
	sum [2]uint64
	sq  [3]uint64
}

func newVarianceLanes() (s varianceLanes) {
	s.octaves, s.missed = varianceOctaves, true
	s.set(varianceOctaves / 2)
	return s
}

// add is sumLanes.add with squares.
func (s *varianceLanes) add(in *fold.Input) (outside int) {
	x, groups, lanes := in.Arg.Float, in.Groups, s.groups
	cut0, cut1, least, size := s.cut[0], s.cut[1], s.least, s.size
	sq0, sq1, sq2 := s.cutSq[0], s.cutSq[1], s.cutSq[2]
	for _, r := range in.Rows {
		v := x[r]
		if u := math.Float64bits(v) << 1; u-least >= size && u != 0 {
			outside++
			continue
		}
		l := &lanes[groups[r]]
		l.n++
		t := v + cut0
		l.sum[0] += math.Float64bits(t)
		l.sum[1] += math.Float64bits(v - (t - cut0) + cut1)
		p := float64(v * v) // converted, so that it is not fused with what follows
		e := math.FMA(v, v, -p)
		t, u := p+sq0, e+sq1
		l.sq[0] += math.Float64bits(t)
		l.sq[1] += math.Float64bits(p-(t-sq0)+sq1) + math.Float64bits(u)
		l.sq[2] += math.Float64bits(e - (u - sq1) + sq2)
	}
	s.added(len(in.Rows), outside)
	return outside
}

// settle adds a lane to m and clears it.
func (s *varianceLanes) settle(l *varianceLane, m *floatMoments) {
	addLane(m.sum[:], l.sum[0], l.n, s.cut[0], s.top-varianceLane0-fixedUnit)
	addLane(m.sum[:], l.sum[1], l.n, s.cut[1], s.top-varianceLane1-fixedUnit)
	addLane(m.sq[:], l.sq[0], l.n, s.cutSq[0], 2*(s.top-fixedUnit)-squareLane0)
	addLane(m.sq[:], l.sq[1], 2*l.n, s.cutSq[1], 2*(s.top-fixedUnit)-squareLane1)
	addLane(m.sq[:], l.sq[2], l.n, s.cutSq[2], 2*(s.top-fixedUnit)-squareLane2)
	m.n += l.n
	*l = varianceLane{}
}

// set moves the window. The lanes must be clear.
func (s *varianceLanes) set(top int) {
	s.window.set(top)
	s.cut = [2]float64{cutter(top - varianceLane0), cutter(top - varianceLane1)}
	s.cutSq = [3]float64{cutter(2*top - squareLane0), cutter(2*top - squareLane1), cutter(2*top - squareLane2)}
}
