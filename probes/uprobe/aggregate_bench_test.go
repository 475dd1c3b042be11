package uprobe

import (
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
)

// BenchmarkAggregate measures the cost of a call for the target where it is aggregated
// in the kernel, compared to programs that do nothing.
func BenchmarkAggregate(b *testing.B) {
	testenv.NeedUprobes(b)
	target := benchTarget(b)
	fn, took := []plan.Expr{col("function_name")}, col("duration")
	b.Run("unprobed", func(b *testing.B) {
		measureCalls(b, target, func(*running) func() *testplan.Discard { return func() *testplan.Discard { return nil } })
	})
	b.Run("empty entry", func(b *testing.B) { measureCalls(b, target, emptyProgram(b, target, attach.TypeMulti)) })
	if attach.FeatureSession.Has() {
		b.Run("empty session", func(b *testing.B) { measureCalls(b, target, emptyProgram(b, target, attach.TypeSession)) })
	}
	for _, c := range []struct {
		name, stream string
		pane         time.Duration
		keys         []plan.Expr
		aggs         []plan.Agg
	}{
		{"count by function", catalog.FunctionStart, 0, fn, []plan.Agg{agg("count")}},
		{"count by function in panes", catalog.FunctionStart, time.Second, fn, []plan.Agg{agg("count")}},
		{"count by thread", catalog.FunctionStart, 0, []plan.Expr{col("tid")}, []plan.Agg{agg("count")}},
		{"sum of an argument", catalog.FunctionStart, 0, fn, []plan.Agg{agg("sum", col("arg0"))}},
		{"histogram of an argument", catalog.FunctionStart, 0, fn, []plan.Agg{agg("histogram", col("arg0"))}},
		{"duration by function", catalog.FunctionDuration, 0, fn, []plan.Agg{agg("count"), agg("avg", took), agg("max", took)}},
		{"quantiles of duration", catalog.FunctionDuration, 0, fn, []plan.Agg{agg("quantile", took)}},
		{"quantiles of duration in panes", catalog.FunctionDuration, 250 * time.Millisecond, fn, []plan.Agg{agg("quantile", took)}},
		{"duration by thread name", catalog.FunctionDuration, 0, []plan.Expr{col("thread_name")}, []plan.Agg{agg("avg", took)}},
	} {
		b.Run(c.name, func(b *testing.B) {
			measureCalls(b, target, func(r *running) func() *testplan.Discard {
				cols := []string{"timestamp"}
				for _, name := range []string{"tid", "thread_name", "function_name", "duration", "arg0"} {
					reads := false
					look := func(e plan.Expr) {
						if c, ok := e.(*plan.Col); ok {
							reads = reads || c.Name == name
						}
					}
					for _, k := range c.keys {
						plan.Walk(k, look)
					}
					for _, f := range c.aggs {
						for _, x := range f.Args {
							plan.Walk(x, look)
						}
					}
					if reads {
						cols = append(cols, name)
					}
				}
				spec := aggregate(testplan.Acquire(c.stream, r.target(), testplan.Named("pushes"), cols...), c.pane, c.keys, c.aggs...)
				src, err := provider(b, Options{}).Prepare(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				d := &testplan.Discard{Ended: make(chan struct{})}
				if err := src.Start(b.Context(), d, probes.Options{}); err != nil {
					b.Fatal(err)
				}
				return func() *testplan.Discard { <-d.Ended; return d }
			})
		})
	}
}
