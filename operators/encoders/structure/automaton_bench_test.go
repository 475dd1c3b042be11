package structure

import (
	"fmt"
	"testing"

	"endoscope/operators/encoders"
	"endoscope/operators/encoders/internal/enctest"
)

// From the symbols to the automaton that is shown: reading, merging,
// minimising.
func BenchmarkAutomaton(b *testing.B) {
	names := encoders.NewAlphabet()
	for i := range 300 {
		names.Symbol(fmt.Sprint("f", i+1))
	}
	for _, c := range []struct {
		n, k int
		rule MergeRule
	}{{8_000, 3, Shared}, {8_000, 3, Included}, {8_000, 3, Equal}, {500_000, 3, Shared}, {500_000, 4, Shared}, {500_000, 8, Shared}} {
		in := enctest.CallTrace(c.n)
		for _, loops := range []bool{false, true} {
			b.Run(fmt.Sprintf("n=%d/k=%d/merge=%s/loops=%v", c.n, c.k, c.rule, loops), func(b *testing.B) {
				b.ReportAllocs()
				var e *AutomatonEncoder
				var a *Automaton
				began := enctest.CpuTime()
				for b.Loop() {
					e, _ = NewAutomatonEncoder(names, AutomatonOptions{K: c.k, NoLoops: !loops, Rule: c.rule}, encoders.Limits{})
					e.Append(in, nil)
					a = e.Encode().(*Automaton)
					a.automaton()
				}
				enctest.ReportRate(b, c.n, began)
				b.ReportMetric(float64(a.read.len()), "states_read")
				b.ReportMetric(float64(a.States()), "states")
				b.ReportMetric(float64(e.Bytes())/1e6, "MB")
			})
		}
	}
}
