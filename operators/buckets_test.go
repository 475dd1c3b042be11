package operators

import (
	"math"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes/codegen"
)

// Buckets that the kernel numbers are merged with those numbered here: the
// numbers are the same, wherever one bucket ends and the next begins. The kernel
// looks the bucket of a quantile up in a table, by the code whose equal in Go is
// called here.
func TestKernelNumbersBucketsAlike(t *testing.T) {
	table, err := codegen.Boundaries()
	if err != nil {
		t.Fatal(err)
	}
	check := func(x int64) {
		if got, want := codegen.BucketOf(table, x), bucketOf(float64(x)); got != want {
			t.Fatalf("%d is in bucket %d in the kernel, in %d here", x, got, want)
		}
	}
	around := func(x int64, d int64) {
		for i := -d; i <= d; i++ {
			check(x + i) // wrapping is as good as any
			check(-(x + i))
		}
	}
	around(0, 100_000)
	around(math.MaxInt64, 3000)
	for i := 0; i < len(table); i += 2 {
		if boundary := table[i]; boundary <= math.MaxInt64 {
			around(int64(boundary), 1100) // beyond 2^53, where doubles are up to 1024 apart
		}
	}
	for shift := range 63 {
		around(1<<shift, 3000)
	}
	for x := uint64(1); x < 1<<63; x += x>>12 + 1 {
		check(int64(x))
	}
}

// The kernel takes the parameters of histograms that this package takes, with
// integers for borders, and no others.
func TestKernelTakesHistogramsAlike(t *testing.T) {
	for _, c := range []struct {
		params []batch.Value
		kernel bool
	}{
		{nil, true},
		{[]batch.Value{batch.Int(0), batch.Int(100), batch.Int(10)}, true},
		{[]batch.Value{batch.Float(-3), batch.Int(100), batch.Float(7)}, true},
		{[]batch.Value{batch.Float(0.5), batch.Int(100), batch.Int(10)}, false},
		{[]batch.Value{batch.Int(5), batch.Int(5), batch.Int(10)}, false},
		{[]batch.Value{batch.Int(0), batch.Int(5), batch.Int(0)}, false},
		{[]batch.Value{batch.Int(math.MinInt64), batch.Int(math.MaxInt64), batch.Int(1)}, false},
		{[]batch.Value{batch.Int(1), batch.Int(2)}, false},
	} {
		f := plan.Agg{Fn: "histogram", Args: []plan.Expr{&plan.Col{T: batch.Bigint}}, Params: c.params}
		_, err := newHistogram(&f, batch.Bigint)
		p, _ := plan.NewPartial(nil, []plan.Agg{f}, 0)
		_, ok := codegen.CompileAggregate(p, codegen.Layout{Columns: []codegen.Column{{Kind: codegen.Number}}}, -1, "")
		if ok != c.kernel || ok && err != nil {
			t.Errorf("%v: the kernel takes it: %v; here: %v", c.params, ok, err)
		}
	}
}
