package agg

import (
	"math"
	"sync"

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

// The bucket of most values is looked up: a logarithm for each value takes most of the time
// of merging groups of many hosts. A cell is the doubles that share their exponent and the
// first bits of their mantissa. It is narrower than a bucket, so that at most one border of
// two buckets is in it.
const (
	cellBits = 6 // of the mantissa: cells are at most 1.6 % wide, buckets 2 %
	// Exponents of doubles from 2^-31 to 2^64, in ns or any other unit.
	lowestExponent  = 1023 - 31
	highestExponent = 1023 + 64
	mantissaBits    = 52
	cellShift       = mantissaBits - cellBits
	lowestCell      = lowestExponent << cellBits
	cells           = (highestExponent - lowestExponent) << cellBits
	// uncertain is how many doubles on each side of a border are not looked up: there the
	// logarithm is not known to be monotonic.
	uncertain = 16
)

// bucketCell is a cell. Doubles whose bits are below border are in the bucket below, others
// in the next one.
type bucketCell struct {
	border uint64
	below  int64
}

var bucketCells = sync.OnceValue(func() *[cells]bucketCell {
	t := new([cells]bucketCell)
	for i := range t {
		low := uint64(lowestCell+i) << cellShift
		high := low + 1<<cellShift - 1
		c := bucketCell{border: math.MaxUint64, below: logBucket(low)}
		if logBucket(high) > c.below {
			for low+1 < high { // low is in the bucket below, high is not
				if middle := low + (high-low)/2; logBucket(middle) > c.below {
					high = middle
				} else {
					low = middle
				}
			}
			c.border = high
		}
		t[i] = c
	}
	return t
})

// logBucket returns the index of the mapping for a positive double.
func logBucket(bits uint64) int64 { return int64(sketchMapping.Index(math.Float64frombits(bits))) }

// bucketIndex returns the index of the mapping for u > 0.
func bucketIndex(u float64) int64 {
	bits := math.Float64bits(u)
	i := bits>>cellShift - lowestCell
	if i >= cells {
		return logBucket(bits)
	}
	c := &bucketCells()[i]
	switch {
	case bits-c.border+uncertain < 2*uncertain:
		return logBucket(bits)
	case bits < c.border:
		return c.below
	}
	return c.below + 1
}
