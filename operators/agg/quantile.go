package agg

import (
	"math"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Quantiles of large groups are computed by a DDSketch (Masson, Rim, Lee: DDSketch,
// PVLDB 12(12), 2019) with relative accuracy α = 0.01: a value v > 0 is counted in
// bucket
//
//	i = floor(ln v / ln γ),  γ = (1+α)/(1-α) = 1.01/0.99
//
// which covers [γ^i, γ^(i+1)) and represents γ^i·(1+α), at most 1 % off. -v is
// counted in the mirrored bucket; 0, the infinities and NaN in separate ones. Buckets
// are plain counters, so counts made elsewhere by the same formula add up to the same
// sketch. Here a bucket is a pair (group, bucket); only the mapping is from the
// library, which fixes the formula to the last bit.
const sketchAccuracy = 0.01

var sketchMapping = func() *mapping.LogarithmicMapping {
	m, err := mapping.NewLogarithmicMapping(sketchAccuracy)
	if err != nil {
		panic(err) // the constant above is wrong
	}
	return m
}()

// bucketBias makes the bucket of every positive value positive, so that the order
// of buckets, -(i+bias) < 0 < i+bias, is that of the values.
const (
	bucketBias     = 1 << 20
	infinityBucket = 2 * bucketBias
	nanBucket      = infinityBucket + 1
)

// bucketOf returns the bucket of v. A value too small for the mapping counts as 0.
func bucketOf(v float64) int64 {
	u := math.Abs(v)
	i := int64(infinityBucket)
	switch {
	case u < sketchMin:
		return 0
	case u <= math.MaxFloat64:
		i = bucketIndex(u) + bucketBias
	case v != v:
		return nanBucket
	}
	if v < 0 {
		return -i
	}
	return i
}

var sketchMin = sketchMapping.MinIndexableValue()

// bucketValue returns the value that bucket i represents, if it is not that of
// infinities or NaN, which contain equal values only.
func bucketValue(i int64) float64 {
	switch {
	case i > 0:
		return sketchMapping.Value(int(i - bucketBias))
	case i < 0:
		return -sketchMapping.Value(int(-i - bucketBias))
	}
	return 0
}

// quantile is QUANTILE(x, q), MEDIAN(x) and PERCENTILE_CONT(x, q).
type quantile struct {
	samples
	q      float64
	linear bool // it interpolates between the values next to it
}

func init() {
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newQuantile(f, arg, 0.5)
	}, "median")
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		if len(f.Params) != 1 {
			return nil, plan.Errorf(-1, -1, "%s needs the quantile", f)
		}
		return newQuantile(f, arg, parameter(f.Params[0]))
	}, "quantile", plan.PercentileCont)
}

func newQuantile(f *plan.Agg, arg types.Type, q float64) (*quantile, error) {
	if !(q >= 0 && q <= 1) {
		return nil, plan.Errorf(-1, -1, "%s: a quantile lies between 0 and 1", f).WithHint("the 99th percentile is quantile 0.99")
	}
	return &quantile{samples: newSamples(arg), q: q, linear: f.Fn == plan.PercentileCont}, nil
}

// The columns of a state (plan.StateFields): values of one bucket, which the kernel
// has counted, or all samples of the group.
const (
	lowColumn = iota
	highColumn
	countColumn
	samplesColumn
)

func (s *samples) States(groups []uint32, out []batch.Column) {
	var b []byte
	for i, g := range groups {
		for _, c := range []int{lowColumn, highColumn} {
			out[c].Int = append(out[c].Int, 0)
		}
		out[countColumn].Int = append(out[countColumn].Int, s.counts[g])
		b = b[:0]
		if s.counts[g] > 0 {
			b = s.encode(b, g)
		}
		appendBytes(&out[samplesColumn], i, b)
	}
}

func (s *samples) Merge(in *fold.Input, state []batch.Column) error {
	low, high, n, all := state[lowColumn].Int, state[highColumn].Int, state[countColumn].Int, &state[samplesColumn]
	for _, r := range in.Rows {
		g := in.Groups[r]
		if len(all.Nulls) > 0 && all.Nulls.Get(int(r)) {
			x := span{low[r], high[r]}
			if !s.valid(x, n[r]) {
				return states.ErrNotState
			}
			s.addSpan(g, x, n[r])
			continue
		}
		if !s.decode(g, states.At(all, r)) {
			return states.ErrNotState
		}
	}
	return nil
}

func (a *quantile) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if a.counts[g] == 0 {
			out.Append(i, types.NullOf(out.Type))
			continue
		}
		rank, part := rankOf(a.q, a.counts[g]), 0.0
		if a.linear {
			rank, part = placeOf(a.q, a.counts[g])
		}
		if out.Type.Physical() == types.PhysInt {
			v := a.wholeAt(g, rank)
			if part > 0 {
				v = wholeBetween(v, a.wholeAt(g, rank+1), part)
			}
			out.Int = append(out.Int, v)
			continue
		}
		v := a.floatAt(g, rank)
		if part > 0 {
			if next := a.floatAt(g, rank+1); next != v {
				v += part * (next - v)
			}
		}
		out.Float = append(out.Float, v)
	}
	return nil
}

// placeOf returns the place of the q-quantile between n values, as PERCENTILE_CONT of SQL:
// the rank, from 1, of the value below it, and the part of the way to the next one.
func placeOf(q float64, n int64) (rank int64, part float64) {
	place := q * float64(n-1)
	below := min(int64(place), n-1) // n may be rounded up
	return below + 1, place - float64(below)
}

// wholeBetween returns the value at a part of the way from low to high.
func wholeBetween(low, high int64, part float64) int64 {
	way := uint64(high) - uint64(low)
	return low + int64(min(uint64(math.Round(part*float64(way))), way))
}

// floatAt returns the value with a rank.
func (s *samples) floatAt(group uint32, rank int64) float64 {
	w, in, known := s.at(group, rank)
	if known {
		return s.number(w)
	}
	return s.valueOf(in)
}

// wholeAt returns the value with a rank, as an integer.
func (s *samples) wholeAt(group uint32, rank int64) int64 {
	w, in, known := s.at(group, rank)
	if known {
		return w
	}
	return s.wholeOf(in)
}

// Values implements fold.Distribution.
func (s *samples) Values(group uint32, visit func(v float64, n int64)) {
	if s.heads[group] != sketched {
		for h := s.heads[group]; h != 0; h = s.next[h-1] {
			visit(s.number(s.words[h-1]), 1)
		}
		return
	}
	for _, i := range s.sorted(group) {
		visit(s.valueOf(s.spans[i]), s.buckets.entries[i].count)
	}
}

// valueOf returns the value that represents those of a bucket.
func (s *samples) valueOf(in span) float64 {
	return min(max(bucketValue(s.bucket(in.low)), s.number(in.low)), s.number(in.high))
}

// wholeOf is valueOf, as an integer.
func (s *samples) wholeOf(in span) int64 {
	switch v := s.valueOf(in); { // DURATION: words are values
	case v <= float64(in.low):
		return in.low
	case v >= float64(in.high):
		return in.high
	default:
		return min(max(int64(math.Round(v)), in.low), in.high)
	}
}

// byWord orders pairs by their words as signed numbers.
func byWord(x, y pair) int {
	switch a, b := int64(x.word), int64(y.word); {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
