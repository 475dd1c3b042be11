package agg

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The bucket that is looked up is the one of the mapping, at every border and elsewhere.
func TestBucketIndex(t *testing.T) {
	check := func(u float64) {
		if got, want := bucketIndex(u), int64(sketchMapping.Index(u)); got != want {
			t.Fatalf("%v (%x) is in bucket %d, want %d", u, math.Float64bits(u), got, want)
		}
	}
	for i := range bucketCells() {
		low := uint64(lowestCell+i) << cellShift
		border := bucketCells()[i].border
		for d := range uint64(300) {
			check(math.Float64frombits(low + d))
			check(math.Float64frombits(low + 1<<cellShift - 1 - d))
			if border != math.MaxUint64 {
				check(math.Float64frombits(border + d - 150))
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1_000_000 {
		check(math.Exp(r.Float64()*140 - 70)) // also outside of the table
		check(float64(r.Uint64()>>r.UintN(64)) + 1)
	}
}

func BenchmarkBucketOf(b *testing.B) {
	var sum int64
	values := make([]float64, 4096)
	for i := range values {
		values[i] = math.Exp(rand.Float64() * 20)
	}
	for i := 0; b.Loop(); i++ {
		sum += bucketOf(values[i%len(values)])
	}
	if sum == 0 {
		b.Error(sum)
	}
}
