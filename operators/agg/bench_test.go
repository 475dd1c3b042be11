package agg

import (
	"math/rand/v2"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/internal/testplan"
)

// BenchmarkAggregateKeys groups by keys of each kind, with COUNT and SUM.
func BenchmarkAggregateKeys(b *testing.B) {
	for _, keys := range []string{"", "s", "x", "s x"} {
		b.Run("by="+keys, func(b *testing.B) { aggregateRate(b, keys, "count(*); sum(x)") })
	}
}

// BenchmarkAggregateFunctions computes one function, grouped by a string.
func BenchmarkAggregateFunctions(b *testing.B) {
	for _, f := range []string{"count(*)", "sum(x)", "avg(x)", "stddev(x)", "min(x)", "max(s)", "quantile(x, 0.99)",
		"count(distinct x)", "histogram(x)", "topk(x, 10)", "last(s)"} {
		b.Run(f, func(b *testing.B) { aggregateRate(b, "s", f) })
	}
}

func aggregateRate(b *testing.B, keys, aggs string) {
	in := testplan.Relation(testplan.EventColumns)
	op, err := New(testplan.GroupBy(in, keys, aggs), &testplan.Nothing{}, &operators.Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := testplan.Events(testplan.NewPool(in), rand.New(rand.NewPCG(1, 2)), 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Push(b.Context(), 0, e); err != nil {
			b.Fatal(err)
		}
	}
	testplan.Rate(b, batch.MaxRows)
}
