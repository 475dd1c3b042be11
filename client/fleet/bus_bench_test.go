package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/client/fleet/root"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
	"endoscope/server/wire/bus"
)

// timeout returns a context for a step of a part.
func timeout() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	_ = cancel // it ends by itself
	return ctx
}

// used returns the processor time of this process.
func used() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Rounds of a simulation. The count of each group tells which one an answer is of.
const (
	simulatedRounds = 40
	simulatedCount  = 100 // of a group in round 0 at each host; one more in each round after it
)

// BenchmarkHosts measures what a query costs its root by the number of hosts, which are
// simulated in another process: each sends 100 groups in each second. An iteration is one
// merged answer, whose counts must be those of all hosts.
//
//	go test -run '^$' -bench Hosts -benchtime 5x -timeout 30m ./client/fleet
//
// writes testdata/figures/hosts.md.
func BenchmarkHosts(b *testing.B) {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	fmt.Fprintf(w, "aggregates\thosts\tCPUs of the root\tCPU s for an answer\tMB/s received\ts to all armed\ts to the first answer\tms after the second, median\tworst\tanswers left out\t\n")
	e := engine(b)
	defer e.Close()
	measured := 0
	for _, of := range []struct {
		aggregates string
		sizes      []int
	}{{"COUNT(*), AVG(n)", []int{100, 1000, 3000, 10000}}, {"COUNT(*), QUANTILE(n, 0.99)", []int{100, 300, 1000}}} {
		aggregates := of.aggregates
		var statements []string
		for r := range simulatedRounds {
			statements = append(statements, fmt.Sprintf("SELECT n %% 100 AS k, %s FROM series(%d) GROUP BY n %% 100 EMIT EVERY 1s", aggregates, 100*(simulatedCount+r)))
		}
		what := record(b, e, statements...)
		measured += len(of.sizes)
		for _, hosts := range of.sizes {
			name, _, _ := strings.Cut(strings.TrimPrefix(aggregates, "COUNT(*), "), "(")
			b.Run(fmt.Sprint(strings.ToLower(name), "/hosts=", hosts), func(b *testing.B) {
				benchmarkHosts(b, w, aggregates, statements[0], what, hosts)
			})
		}
	}
	_ = w.Flush()
	if strings.Count(table.String(), "\n") != 1+measured {
		return // not all were measured
	}
	load, _, _ := strings.Cut(testenv.Output(b, "cat", "/proc/loadavg"), " ")
	out := fmt.Sprintf("What a query costs its root, by the number of hosts, of which each sends 100 groups of 100 to\n140 rows in each second (BenchmarkHosts). %d processors, shared with the hosts and the NATS server,\nwhose processor time is not counted. The load average was %s: delays depend on it, processor\ntime less.\n\n```\n%s```\n", runtime.NumCPU(), load, table.String())
	if err := os.WriteFile("testdata/figures/hosts.md", []byte(out), 0o644); err != nil {
		b.Error(err)
	}
}

func benchmarkHosts(b *testing.B, w io.Writer, aggregates, statement string, what *recorded, hosts int) {
	of := *what
	of.Hosts, of.Dir = hosts, b.TempDir()
	file := filepath.Join(of.Dir, "recorded")
	text, err := json.Marshal(of)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	p := startProcess(b, "hosts", file)
	to, err := root.Dial(b.Context(), root.Options{Bus: bus.Address{URL: p.said}})
	if err != nil {
		b.Fatal(err)
	}
	defer to.Close()
	if err := to.Await(b.Context(), hosts, 0); err != nil {
		b.Fatal(err)
	}
	s, err := to.NewSession(b.Context(), wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	r, err := s.Execute(b.Context(), statement)
	if err != nil {
		b.Fatal(err)
	}
	armed := time.Since(began)
	defer r.Close()
	answer := func() (round int) {
		round = -1
		for {
			ev, err := r.Next(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if ev.Batch != nil {
				for i := range ev.Batch.Len() {
					n := ev.Batch.Cols[1].Value(ev.Batch.Row(i)).I
					if round = int(n)/hosts - simulatedCount; int(n)%hosts != 0 {
						round = -1 // some hosts are one round behind
					}
				}
				ev.Batch.Release()
			}
			if ev.Kind == wire.Flush {
				return round
			}
		}
	}
	answer()
	first := time.Since(began)
	cpu, received, at := used(), to.Received(), time.Now()
	var delays []time.Duration
	answers, last := 0, -1
	left := 0
	for b.Loop() {
		round := answer()
		now := time.Now()
		answers++
		if round < 0 {
			left++
			continue
		}
		second := now.Truncate(time.Second)
		for int(second.Unix())%simulatedRounds != round {
			second = second.Add(-time.Second)
		}
		if delays = append(delays, now.Sub(second)); last >= 0 {
			left += (round - last + simulatedRounds - 1) % simulatedRounds
		}
		last = round
	}
	took := time.Since(at).Seconds()
	CPUs, rate := (used()-cpu).Seconds()/took, float64(to.Received()-received)/took/1e6
	slices.Sort(delays)
	if len(delays) == 0 {
		b.Fatalf("none of %d answers is of all hosts: %s", answers, r.Summary().Notes)
	}
	median, worst := delays[len(delays)/2], delays[len(delays)-1]
	b.ReportMetric(CPUs, "CPUs")
	b.ReportMetric(CPUs*took/float64(answers), "CPU-s/answer")
	b.ReportMetric(rate, "MB/s")
	b.ReportMetric(armed.Seconds(), "s-to-armed")
	b.ReportMetric(first.Seconds(), "s-to-first")
	b.ReportMetric(median.Seconds(), "s-delay")
	if answers > 1 {
		fmt.Fprintf(w, "%s\t%d\t%.2f\t%.2f\t%.1f\t%.2f\t%.2f\t%d\t%d\t%d of %d\t\n", aggregates, hosts, CPUs, CPUs*took/float64(answers), rate, armed.Seconds(), first.Seconds(), median.Milliseconds(), worst.Milliseconds(), left, answers)
	}
	b.Log(r.Summary().Notes)
}
