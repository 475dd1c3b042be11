package operators

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
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
	in := relation(eventColumns)
	op, err := newAggregate(groupBy(in, keys, aggs), &nothing{}, &Options{})
	if err != nil {
		b.Fatal(err)
	}
	e := events(newPool(in), rand.New(rand.NewPCG(1, 2)), 0)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Push(b.Context(), 0, e); err != nil {
			b.Fatal(err)
		}
	}
	rate(b, batch.MaxRows)
}

// BenchmarkAggregateWindows closes a window of 1 ms after every batch.
func BenchmarkAggregateWindows(b *testing.B) {
	for _, groups := range []int{1, 100} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			in := relation("t:timestamp s:varchar window_start:timestamp window_end:timestamp")
			var n plan.Node = groupBy(in, "s window_start window_end", "count(*); max(t)")
			g, err := Build(n, &nothing{}, &Options{})
			if err != nil {
				b.Fatal(err)
			}
			e := newPool(in).Get()
			for i := range int64(batch.MaxRows) {
				e.AppendRow(types.Time(i), types.Str(names[int(i)%groups]), types.Time(0), types.Time(0))
			}
			start, end := e.Cols[2].Int, e.Cols[3].Int
			leaf := g.Leaves[0]
			b.ReportAllocs()
			for at := int64(0); b.Loop(); at += 1e6 {
				for i := range start {
					start[i], end[i] = at, at+1e6
				}
				if _, err := leaf.Op.Push(b.Context(), 0, e); err != nil {
					b.Fatal(err)
				}
				if _, err := leaf.Op.Signal(b.Context(), 0, Signal{Kind: Watermark, Time: at + 1e6}); err != nil {
					b.Fatal(err)
				}
			}
			rate(b, batch.MaxRows)
		})
	}
}
