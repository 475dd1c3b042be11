package export

import (
	"math"

	"endoscope/operators/agg"
)

// exponential is an exponential histogram, as Prometheus' native ones are: with base
// 2^(2^-schema), bucket i has the values in (base^(i-1), base^i].
//
// It is made of a sketch, whose buckets hold values that are within 1 % of the value that
// represents them. That value decides, and is the same for ever: so a value is counted in
// the bucket that has it or, if it is within 1 % of a border, in the next one, and counts
// never move between buckets as a sketch grows. A quantile that a receiver computes is
// wrong by at most the width of a bucket and this 1 %: 3.2 % at the first schema.
type exponential struct {
	schema   int32
	zero     uint64 // values that are 0
	positive side
	negative side // of the absolute values
	count    uint64
}

// side is the buckets of one sign, without gaps. counts[0] is bucket number first.
type side struct {
	first  int
	counts []uint64
}

const (
	firstSchema = 5  // base 1.022
	lastSchema  = -4 // of Prometheus
	maxBuckets  = 160
)

// converter makes exponential histograms of sketches. It holds the buckets of the last one.
type converter struct {
	buckets []agg.SketchBucket
	numbers []int // of the buckets at the first schema
}

// exponential returns the histogram of a value of SKETCH.
func (c *converter) exponential(sketch string, per float64) *exponential {
	e := &exponential{schema: firstSchema}
	c.buckets, _ = agg.SketchBuckets(c.buckets[:0], sketch)
	c.numbers = c.numbers[:0]
	low, high := [2]int{math.MaxInt, math.MaxInt}, [2]int{math.MinInt, math.MinInt}
	for _, b := range c.buckets {
		i, sign := bucketNumber(b.Value / per)
		c.numbers = append(c.numbers, i)
		if b.Value != 0 && b.Value == b.Value {
			low[sign], high[sign] = min(low[sign], i), max(high[sign], i)
		}
	}
	shift := 0
	for e.schema > lastSchema && (width(low[0], high[0], shift) > maxBuckets || width(low[1], high[1], shift) > maxBuckets) {
		e.schema--
		shift++
	}
	sides := [2]*side{&e.positive, &e.negative}
	for sign, s := range sides {
		if low[sign] <= high[sign] {
			s.first = coarser(low[sign], shift)
			s.counts = make([]uint64, width(low[sign], high[sign], shift))
		}
	}
	for k, b := range c.buckets {
		n, s := uint64(b.Count), &e.positive
		if b.Value < 0 {
			s = &e.negative
		}
		switch {
		case b.Value != b.Value:
			continue // NaN is in no bucket
		case b.Value == 0:
			e.zero += n
		default:
			s.counts[coarser(c.numbers[k], shift)-s.first] += n
		}
		e.count += n
	}
	return e
}

// bucketNumber returns the bucket of a value at the first schema, and 1 as its sign if it is
// negative. The number of 0 and NaN has no meaning.
func bucketNumber(v float64) (i, sign int) {
	if v < 0 {
		v, sign = -v, 1
	}
	frac, exp := math.Frexp(max(math.SmallestNonzeroFloat64, min(v, math.MaxFloat64)))
	return exp<<firstSchema + int(math.Ceil(math.Log2(frac)*(1<<firstSchema))), sign
}

// coarser returns the bucket that bucket i is in after some steps to a lower schema.
func coarser(i, steps int) int {
	return -((-i) >> steps) // i / 2^steps, rounded up
}

func width(low, high, steps int) int {
	if low > high {
		return 0
	}
	return coarser(high, steps) - coarser(low, steps) + 1
}

// bucketed returns the counts of the buckets of HISTOGRAM with borders: one below each
// border, and one above the last.
func bucketed(shape any, borders []float64) (counts []uint64, count uint64) {
	counts = make([]uint64, len(borders)+1)
	for _, b := range elements(shape) {
		bucket := elements(b.A)
		high, n := bucket[1], uint64(bucket[2].I)
		at := len(borders)
		if !high.IsNull {
			v := high.F
			if v == 0 {
				v = float64(high.I)
			}
			for i, border := range borders {
				if v <= border {
					at = i
					break
				}
			}
		}
		counts[at] += n
		count += n
	}
	return counts, count
}
