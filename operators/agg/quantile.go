package agg

import (
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch/mapping"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// Quantiles are computed by a DDSketch (Masson, Rim, Lee: DDSketch, PVLDB 12(12),
// 2019) with relative accuracy α = 0.01: a value v > 0 is counted in bucket
//
//	i = floor(ln v / ln γ),  γ = (1+α)/(1-α) = 1.01/0.99
//
// which covers [γ^i, γ^(i+1)) and represents γ^i·(1+α), at most 1 % off. -v is
// counted in the mirrored bucket, 0 in a separate one. Buckets are plain counters,
// so counts made elsewhere by the same formula add up to the same sketch. Here a
// bucket is a pair (group, bucket); only the mapping is from the library, which
// fixes the formula to the last bit.
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
const bucketBias = 1 << 20

// bucketOf returns the bucket of v. A value too small for the mapping counts as 0,
// an infinity as the largest value of the mapping.
func bucketOf(v float64) int64 {
	u := math.Abs(v)
	if u < sketchMin {
		return 0
	}
	i := int64(sketchMapping.Index(min(u, sketchMax))) + bucketBias
	if v < 0 {
		return -i
	}
	return i
}

var sketchMin, sketchMax = sketchMapping.MinIndexableValue(), sketchMapping.MaxIndexableValue()

// bucketValue returns the value that bucket i represents.
func bucketValue(i int64) float64 {
	switch {
	case i > 0:
		return sketchMapping.Value(int(i - bucketBias))
	case i < 0:
		return -sketchMapping.Value(int(-i - bucketBias))
	}
	return 0
}

// quantile is QUANTILE(x, q) and MEDIAN(x). NaNs are ignored.
type quantile struct {
	pairs
	q      float64
	rows   []uint16 // scratch: those that are no NaN
	sorted []pair   // scratch
}

func init() {
	define(func(f *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newQuantile(f, 0.5)
	}, "median")
	define(func(f *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		if len(f.Params) != 1 {
			return nil, plan.Errorf(-1, -1, "%s needs the quantile", f)
		}
		return newQuantile(f, parameter(f.Params[0]))
	}, "quantile")
}

func newQuantile(f *plan.Agg, q float64) (fold.Accumulator, error) {
	if !(q >= 0 && q <= 1) {
		return nil, plan.Errorf(-1, -1, "%s: a quantile lies between 0 and 1", f).WithHint("the 99th percentile is quantile 0.99")
	}
	return &quantile{q: q}, nil
}

func (a *quantile) Update(in *fold.Input) {
	rows := in.Rows
	if in.Arg.Type.Physical() == types.PhysFloat {
		a.rows = numbersOnly(in.Arg.Float, rows, a.rows[:0])
		rows = a.rows
		for _, r := range rows {
			in.Words[r] = uint64(bucketOf(in.Arg.Float[r]))
		}
	} else {
		for _, r := range rows {
			in.Words[r] = uint64(bucketOf(float64(in.Arg.Int[r])))
		}
	}
	a.add(rows, in.Groups, in.Words)
}

// numbersOnly appends to dst the rows at which x is no NaN.
func numbersOnly(x []float64, rows, dst []uint16) []uint16 {
	for _, r := range rows {
		if v := x[r]; v == v {
			dst = append(dst, r)
		}
	}
	return dst
}

func (a *quantile) Merge(in *fold.Input, state []batch.Column) error { return a.addCounts(in, state) }

func (a *quantile) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		if a.sizes[g] == 0 {
			out.Nulls.Set(i)
		}
		if err := appendRounded(out, a.at(g)); err != nil {
			return err
		}
	}
	return nil
}

// at returns the value of rank floor(q·(n-1)) among the n values of a group.
func (a *quantile) at(group uint32) float64 {
	a.sorted = a.appendGroup(group, a.sorted[:0])
	slices.SortFunc(a.sorted, byWord)
	total := int64(0)
	for i := range a.sorted {
		total += a.sorted[i].count
	}
	rank := a.q * float64(total-1)
	below := int64(0)
	for i := range a.sorted {
		below += a.sorted[i].count
		if float64(below) > rank {
			return bucketValue(int64(a.sorted[i].word))
		}
	}
	return 0
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
