package agg

import (
	"math"
	"testing"

	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
)

// The kernel and this package number buckets equally, at every border, so their
// states can be merged. The kernel looks up the bucket of a quantile in a table,
// by code whose Go equivalent is called here.
func TestKernelNumbersBucketsAlike(t *testing.T) {
	table, err := codegen.Boundaries()
	if err != nil {
		t.Fatal(err)
	}
	if codegen.ExactSamples != exactSamples {
		t.Errorf("groups are exact to %d values in the kernel, to %d here", codegen.ExactSamples, exactSamples)
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

// The kernel accepts the parameters of histograms that this package accepts, with
// integers for borders, and no others.
func TestKernelTakesHistogramsAlike(t *testing.T) {
	for _, c := range []struct {
		params []types.Value
		kernel bool
	}{
		{nil, true},
		{[]types.Value{types.Int(0), types.Int(100), types.Int(10)}, true},
		{[]types.Value{types.Float(-3), types.Int(100), types.Float(7)}, true},
		{[]types.Value{types.Float(0.5), types.Int(100), types.Int(10)}, false},
		{[]types.Value{types.Int(5), types.Int(5), types.Int(10)}, false},
		{[]types.Value{types.Int(0), types.Int(5), types.Int(0)}, false},
		{[]types.Value{types.Int(math.MinInt64), types.Int(math.MaxInt64), types.Int(1)}, false},
		{[]types.Value{types.Int(1), types.Int(2)}, false},
	} {
		f := plan.Agg{Fn: "histogram", Args: []plan.Expr{&plan.Col{T: types.Bigint}}, Params: c.params}
		_, err := newHistogram(&f, types.Bigint)
		p, _ := plan.NewPartial(nil, []plan.Agg{f}, 0)
		_, ok := codegen.CompileAggregate(p, codegen.Layout{Columns: []codegen.Column{{Kind: codegen.Number}}}, -1, "")
		if ok != c.kernel || ok && err != nil {
			t.Errorf("%v: the kernel takes it: %v; here: %v", c.params, ok, err)
		}
	}
}
