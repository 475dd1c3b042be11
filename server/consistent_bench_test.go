package server_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// roundCalls is how many calls server/testdata/entities/cost.cc makes in a round.
const roundCalls = 50_000

// BenchmarkConsistent is what a call of a C++ method costs the program that makes it,
// and whoever monitors it, both in CPU time: without monitoring, by the events alone,
// and under CONSISTENT, unfiltered, filtered and suspended. A round has 50,000 calls;
// the least of the rounds counts.
func BenchmarkConsistent(b *testing.B) {
	testenv.NeedUprobes(b)
	const calls = "SELECT * FROM entity_events WHERE category = 'INVOCATION'"
	for _, v := range []struct{ name, query, then string }{
		{"not_monitored", "", ""},
		{"plain", calls, ""},
		{"plain_filtered", calls + " AND thread_name = 'nobody'", ""},
		{"plain_suspended", calls, "SUSPEND"},
		{"CONSISTENT", "SELECT * FROM CONSISTENT((" + calls + "))", ""},
		{"CONSISTENT_filtered", "SELECT * FROM CONSISTENT((" + calls + " AND thread_name = 'nobody'))", ""},
		{"CONSISTENT_suspended", "SELECT * FROM CONSISTENT((" + calls + "))", "SUSPEND"},
		{"CONSISTENT_thread_suspended", "SELECT * FROM CONSISTENT((" + calls + "))", "SUSPEND THREAD 'worker'"},
		{"CONSISTENT_of_objects", "SELECT * FROM CONSISTENT((SELECT * FROM entity_events WHERE category = 'OBJECT'))", ""},
	} {
		b.Run(v.name, func(b *testing.B) {
			// So built functions begin and end by instructions that are cheap to probe, as
			// most do that are built for distributions.
			p := stepsOf(b, testenv.CompileC(b, "testdata/entities/cost.cc", "-O1", "-fstack-protector-all", "-pthread", "-lstdc++"))
			s := newSession(b, wire.Options{PID: p.pid()})
			drained := make(chan struct{})
			var r wire.Result
			if v.query == "" {
				close(drained)
			} else {
				r = start(b, s, v.query)
				go func() {
					defer close(drained)
					for {
						ev, err := r.Next(context.Background())
						if err != nil {
							return
						}
						if ev.Kind == wire.Rows {
							ev.Batch.Release()
						}
					}
				}()
			}
			if v.then != "" {
				message(b, s, v.then)
			}
			round := func() int64 {
				p.begin()
				line, err := p.out.ReadString('\n')
				n, parsed := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
				if err != nil || parsed != nil {
					b.Fatalf("%q, %v", line, err)
				}
				return n
			}
			round()
			time.Sleep(200 * time.Millisecond) // what was begun with the query is over
			least, rounds, ours := int64(1<<62), 0, processorTimeOf(b, os.Getpid())
			for b.Loop() {
				least = min(least, round())
				rounds++
			}
			if r != nil {
				r.Stop()
			}
			<-drained
			b.ReportMetric(float64(least), "ns/call")
			b.ReportMetric(float64(processorTimeOf(b, os.Getpid())-ours)/float64(rounds*roundCalls), "monitor-ns/call")
		})
	}
}
