package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// BenchmarkSharing is what 1, 2 and 8 equal queries cost a call of a function,
// in ns of its program's own processor time, when they share their probes and
// when each has its own. The figures are medians of rounds that take turns.
//
//	go test -run '^$' -bench Sharing -benchtime 1x ./server
func BenchmarkSharing(b *testing.B) {
	testenv.NeedUprobes(b)
	var target callTarget
	for _, t := range callTargets(b) {
		if t.name == "push" {
			target = t
		}
	}
	for _, what := range []struct{ name, statement string }{
		{"count", countQuery},
		{"duration", durationQuery},
		{"rows", "SELECT timestamp, arg0 FROM function_start WHERE function_name = '%s' AND arg0 %% 100 = 0"},
	} {
		b.Run(what.name, func(b *testing.B) {
			for b.Loop() {
				sharedBy(b, target, what.statement)
			}
		})
	}
}

func sharedBy(b *testing.B, t callTarget, statement string) {
	c := t.start(b)
	c.measure(1)
	s := newSession(b, wire.Options{PID: c.cmd.Process.Pid})
	queries := []int{0, 1, 2, 8}
	ns := map[string][]float64{}
	name := func(n int, sharing string) string { return fmt.Sprintf("%d-%s", n, sharing) }
	for range callRounds {
		for _, sharing := range []string{"on", "off"} {
			ask(b, s, "SET sharing = "+sharing)
			for _, n := range queries {
				end := manyQueries(b, s, fmt.Sprintf(statement, t.function), n)
				ns[name(n, sharing)] = append(ns[name(n, sharing)], c.measure(callMillis))
				end()
			}
		}
	}
	median := func(n int, sharing string) float64 {
		all := ns[name(n, sharing)]
		slices.Sort(all)
		return all[len(all)/2]
	}
	var table strings.Builder
	fmt.Fprintf(&table, "\n%-10s %12s %12s\n", "queries", "shared", "each its own")
	for _, n := range queries[1:] {
		on, off := median(n, "on")-median(0, "on"), median(n, "off")-median(0, "off")
		fmt.Fprintf(&table, "%-10d %9.0f ns %9.0f ns\n", n, on, off)
		b.ReportMetric(on, fmt.Sprintf("%d-shared-ns", n))
		b.ReportMetric(off, fmt.Sprintf("%d-own-ns", n))
	}
	fmt.Print(table.String())
}

// manyQueries runs a statement n times until end is called.
func manyQueries(b *testing.B, s wire.Session, statement string, n int) (end func()) {
	var ends []func()
	for range n {
		r := start(b, s, statement)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				ev, err := r.Next(context.Background())
				if err != nil {
					return
				}
				if ev.Batch != nil {
					ev.Batch.Release()
				}
			}
		}()
		ends = append(ends, func() {
			r.Stop()
			<-done
			for _, l := range r.Summary().Losses {
				b.Errorf("%s lost %d: %s", statement, l.N, l.Cause)
			}
			r.Close()
		})
	}
	return func() {
		for _, f := range ends {
			f()
		}
	}
}
