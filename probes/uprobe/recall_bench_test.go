package uprobe

import (
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/recall"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
)

// BenchmarkRecall measures the processor time of a call that is recorded for RECALL, beside
// one that becomes rows of function_call, and beside an empty program that is run as often:
// at the entry and the return.
func BenchmarkRecall(b *testing.B) {
	testenv.NeedUprobes(b)
	target := benchTarget(b)
	needFeature(b, attach.Session.Needs())
	b.Run("unprobed", func(b *testing.B) {
		measureCalls(b, target, func(*running) func() *testplan.Discard { return func() *testplan.Discard { return nil } })
	})
	b.Run("empty program", func(b *testing.B) {
		measureCalls(b, target, emptyProgram(b, target, attach.TypeSession))
	})
	for _, name := range []string{"function_call", "recorded"} {
		b.Run(name, func(b *testing.B) {
			measureCalls(b, target, func(r *running) func() *testplan.Discard {
				spec := testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("pushes"), "timestamp", "tid", "event", "function_name", "depth")
				o := probes.Options{}
				var set *recall.Set
				if name == "recorded" {
					var err error
					if set, err = recall.New(64<<20, int64(time.Second), clock.Offset()); err != nil {
						b.Fatal(err)
					}
					spec.Settings = plan.Settings{Recall: time.Second}
					o.Record = set
				}
				src, err := provider(b, Options{}).Prepare(b.Context(), spec)
				if err != nil {
					b.Fatal(err)
				}
				d := &testplan.Discard{Ended: make(chan struct{})}
				if err := src.Start(b.Context(), d, o); err != nil {
					b.Fatal(err)
				}
				return func() *testplan.Discard { <-d.Ended; src.Stop(); set.Close(); return d }
			})
		})
	}
}
