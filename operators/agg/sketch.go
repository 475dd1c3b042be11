package agg

import (
	"math"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sketch is SKETCH(x): the samples of QUANTILE, as BYTES that can be stored, sent and
// merged: SKETCH_QUANTILE over several sketches returns exactly what QUANTILE returns
// over all their values together.
type sketch struct{ samples }

func (a *sketch) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	var b []byte
	for i, g := range groups {
		b = b[:0]
		if a.counts[g] > 0 {
			b = a.encode(b, g)
		}
		appendBytes(out, i, b)
	}
	return nil
}

func init() {
	define(func(_ *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return &sketch{newSamples(arg)}, nil
	}, "sketch")
	define(newSketchQuantile, "sketch_quantile")
}

// sketchQuantile is SKETCH_QUANTILE(s, q): QUANTILE over all values of the sketches.
type sketchQuantile struct {
	quantile
	bad bool // one of them is not a valid sketch
}

func newSketchQuantile(f *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
	if len(f.Params) != 1 {
		return nil, plan.Errorf(-1, -1, "%s needs the quantile", f)
	}
	a, err := newQuantile(f, types.Double, parameter(f.Params[0]))
	if err != nil {
		return nil, err
	}
	return &sketchQuantile{quantile: *a}, nil
}

func (a *sketchQuantile) Reset() {
	a.quantile.Reset()
	a.bad = false
}

func (a *sketchQuantile) Update(in *fold.Input) {
	for _, r := range in.Rows {
		if !a.decode(in.Groups[r], states.At(in.Arg, r)) {
			a.bad = true
		}
	}
}

// notSketch is the state of a group one of whose values was not a valid sketch: a
// version that encode does not write.
const notSketch = "\x00"

func (a *sketchQuantile) States(groups []uint32, out []batch.Column) {
	var b []byte
	for i, g := range groups {
		n := a.counts[g]
		b = b[:0]
		switch {
		case a.bad:
			b, n = append(b, notSketch...), max(n, 1)
		case n > 0:
			b = a.encode(b, g)
		}
		appendBytes(&out[0], i, b)
		out[1].Int = append(out[1].Int, n)
	}
}

func (a *sketchQuantile) Merge(in *fold.Input, state []batch.Column) error {
	for _, r := range in.Rows {
		b := states.At(&state[0], r)
		switch {
		case string(b) == notSketch:
			a.bad = true
		case !a.decode(in.Groups[r], b):
			return states.ErrNotState
		}
	}
	return nil
}

func (a *sketchQuantile) Output(groups []uint32, out *batch.Column, at fold.Instant) error {
	if a.bad {
		return plan.Errorf(-1, -1, "the argument of SKETCH_QUANTILE is not a sketch").WithHint("SKETCH(x) makes one")
	}
	return a.quantile.Output(groups, out, at)
}

// appendBytes appends b to a column of BYTES; NULL if it is empty.
func appendBytes(c *batch.Column, row int, b []byte) {
	if len(b) == 0 {
		c.Append(row, types.NullOf(types.Bytes))
		return
	}
	c.Append(row, types.Value{Type: types.Bytes, S: string(b)})
}

// SketchBucket is a bucket of a sketch, in the order of values.
type SketchBucket struct {
	Value float64 // what represents its values, at most 1 % off; durations in ns
	Count int64
}

// SketchBuckets appends the buckets of a value of SKETCH to to. The value that represents a
// bucket is the same in every sketch, also where the values themselves are known: a value
// is counted by the same one however many there are. ok is false if b is not a sketch.
func SketchBuckets(to []SketchBucket, b string) (buckets []SketchBucket, ok bool) {
	if b == "" {
		return to, false
	}
	t, _ := typeOf(b[0])
	s := newSamples(t)
	first := len(to)
	ok = s.each([]byte(b), func(x span, n int64) {
		v := s.number(x.low)
		if i := s.bucket(x.low); i > -infinityBucket && i < infinityBucket {
			v = min(max(bucketValue(i), -math.MaxFloat64), math.MaxFloat64)
		}
		if last := len(to) - 1; last >= first && to[last].Value == v {
			to[last].Count += n
			return
		}
		to = append(to, SketchBucket{v, n})
	})
	return to, ok
}
