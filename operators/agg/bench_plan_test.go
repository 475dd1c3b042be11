package agg_test

import (
	"fmt"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/operators/internal/testplan"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// BenchmarkAggregateWindows closes a window of 1 ms after every batch.
func BenchmarkAggregateWindows(b *testing.B) {
	for _, groups := range []int{1, 100} {
		b.Run(fmt.Sprint("groups=", groups), func(b *testing.B) {
			in := testplan.Relation("t:timestamp s:varchar window_start:timestamp window_end:timestamp")
			var n plan.Node = testplan.GroupBy(in, "s window_start window_end", "count(*); max(t)")
			g, err := graph.Build(n, &testplan.Nothing{}, &operators.Options{})
			if err != nil {
				b.Fatal(err)
			}
			e := testplan.NewPool(in).Get()
			for i := range int64(batch.MaxRows) {
				e.AppendRow(types.Time(i), types.Str(testplan.Names[int(i)%groups]), types.Time(0), types.Time(0))
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
				if _, err := leaf.Op.Signal(b.Context(), 0, operators.Signal{Kind: operators.Watermark, Time: at + 1e6}); err != nil {
					b.Fatal(err)
				}
			}
			testplan.Rate(b, batch.MaxRows)
		})
	}
}
