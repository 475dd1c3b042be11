package agg

import (
	"math"
	"sync"
)

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
