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
	"strconv"
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

// simulatedFleets are the sizes of fleets, by what is asked of them.
var simulatedFleets = []struct {
	aggregates string
	sizes      []int
}{{"COUNT(*), AVG(n)", []int{100, 1000, 3000, 10000}}, {"COUNT(*), QUANTILE(n, 0.99)", []int{100, 300, 1000}}}

// BenchmarkHosts measures what a query costs its root by the number of hosts, which are
// simulated in another process: each sends 100 groups in each second. An iteration is one
// merged answer, whose counts must be those of all hosts.
//
//	go test -run '^$' -bench Hosts -benchtime 5x -timeout 30m ./client/fleet
//
// writes testdata/figures/hosts.md.
func BenchmarkHosts(b *testing.B) {
	rows := []string{"aggregates\thosts\tCPUs of the root\tCPU s for an answer\tMB/s received\ts to all armed\ts to the first answer\tms after the second, median\tworst\tanswers left out\t\n"}
	e := engine(b)
	defer e.Close()
	measured := 0
	for _, of := range simulatedFleets {
		aggregates := of.aggregates
		statements := simulatedStatements(aggregates)
		what := record(b, e, statements...)
		measured += len(of.sizes)
		for _, hosts := range of.sizes {
			name, _, _ := strings.Cut(strings.TrimPrefix(aggregates, "COUNT(*), "), "(")
			b.Run(fmt.Sprint(strings.ToLower(name), "/hosts=", hosts), func(b *testing.B) {
				if m := benchmarkHosts(b, statements[0], what, hosts, 0); m != nil {
					rows = append(rows, fmt.Sprintf("%s\t%d\t%.2f\t%.2f\t%.1f\t%.2f\t%.2f\t%s\t%s\t%d of %d\t\n", aggregates, hosts, m.CPUs, m.CPUs*m.took/float64(m.answers), m.rate, m.armed.Seconds(), m.first.Seconds(), inMilliseconds(m.median), inMilliseconds(m.worst), m.left, m.answers))
				}
			})
		}
	}
	if len(rows) == 1+measured { // else not all were
		writeFigure(b, "hosts.md", fmt.Sprintf("What a query costs its root, by the number of hosts, of which each sends 100 groups of 100 to\n140 rows in each second (BenchmarkHosts), from 5 s after the first answer on, or 15 s of\n10,000 hosts. %d processors, shared with the hosts and the NATS server,\nwhose processor time is not counted. The load average was %s: delays depend on it, processor\ntime less.", runtime.NumCPU(), load(b)), rows)
	}
}

// writeFigure writes a table, whose columns end with tabs, to testdata/figures.
func writeFigure(b *testing.B, name, about string, rows []string) {
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 1, ' ', tabwriter.AlignRight|tabwriter.Debug)
	for _, row := range rows {
		_, _ = io.WriteString(w, row)
	}
	_ = w.Flush()
	if err := os.WriteFile("testdata/figures/"+name, fmt.Appendf(nil, "%s\n\n```\n%s```\n", about, table.String()), 0o644); err != nil {
		b.Error(err)
	}
}

func load(b *testing.B) string {
	text, _, _ := strings.Cut(testenv.Output(b, "cat", "/proc/loadavg"), " ")
	return text
}

// simulatedStatements are queries whose results are those of the rounds of a simulation.
func simulatedStatements(aggregates string) (out []string) {
	for r := range simulatedRounds {
		out = append(out, fmt.Sprintf("SELECT n %% 100 AS k, %s FROM series(%d) GROUP BY n %% 100 EMIT EVERY 1s", aggregates, 100*(simulatedCount+r)))
	}
	return out
}

// BenchmarkReducers measures what a query costs its root, and each of two reducers, by the
// number of hosts, with and without reducers. It is BenchmarkHosts otherwise.
//
//	go test -run '^$' -bench Reducers -benchtime 5x -timeout 30m ./client/fleet
//
// writes testdata/figures/reducers.md.
func BenchmarkReducers(b *testing.B) {
	rows := []string{"aggregates\thosts\treducers\tCPUs of the root\tCPU s for an answer\tMB/s received\tCPUs of each reducer\tms after the second, median\tworst\tanswers left out\t\n"}
	e := engine(b)
	defer e.Close()
	measured := 0
	for _, of := range simulatedFleets {
		statements := simulatedStatements(of.aggregates)
		what := record(b, e, statements...)
		for _, hosts := range of.sizes {
			for _, reducers := range []int{0, 2} {
				measured++
				name, _, _ := strings.Cut(strings.TrimPrefix(of.aggregates, "COUNT(*), "), "(")
				b.Run(fmt.Sprint(strings.ToLower(name), "/hosts=", hosts, "/reducers=", reducers), func(b *testing.B) {
					if m := benchmarkHosts(b, statements[0], what, hosts, reducers); m != nil {
						rows = append(rows, fmt.Sprintf("%s\t%d\t%d\t%.2f\t%.3f\t%.2f\t%.2f\t%s\t%s\t%d of %d\t\n", of.aggregates, hosts, reducers, m.CPUs, m.CPUs*m.took/float64(m.answers), m.rate, m.reducers, inMilliseconds(m.median), inMilliseconds(m.worst), m.left, m.answers))
					}
				})
			}
		}
	}
	if len(rows) == 1+measured { // else not all were
		writeFigure(b, "reducers.md", fmt.Sprintf("What a query costs its root without and with two reducers, which own a shard each, by the number\nof hosts, of which each sends 100 groups of 100 to 140 rows in each second (BenchmarkReducers), from 5 s after\nthe first answer on, or 15 s of 10,000 hosts.\nWhat the root receives includes a heartbeat of each host in each second. %d processors, shared with\nthe reducers, the hosts and the NATS server. The load average was %s: delays depend on it, processor\ntime less.", runtime.NumCPU(), load(b)), rows)
	}
}

// settling is how long after its first answer a query is measured, for each 3000 hosts: what hosts
// have sent until then is read together.
const settling = 5 * time.Second

// measurement is what one query has cost.
type measurement struct {
	CPUs, rate, took, reducers float64
	armed, first               time.Duration
	median, worst              time.Duration
	left, answers              int
}

// inMilliseconds formats a delay; zero: no answer was of all hosts.
func inMilliseconds(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func benchmarkHosts(b *testing.B, statement string, what *recorded, hosts, reducers int) *measurement {
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
	var processes []*process
	for i := range reducers {
		processes = append(processes, startProcess(b, "reducer", runReducerOptions{URL: p.said, Name: fmt.Sprint("r", i), Shards: reducers}))
	}
	if err := to.Await(b.Context(), hosts, reducers); err != nil {
		b.Fatal(err)
	}
	awaitShards(b, &bus.Address{URL: p.said}, reducers)
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
	for time.Since(began) < first+settling*time.Duration(max(hosts/3000, 1)) {
		answer()
	}
	cpu, theirs, received, at := used(), usedBy(b, processes), to.Received(), time.Now()
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
	m := &measurement{CPUs: (used() - cpu).Seconds() / took, rate: float64(to.Received()-received) / took / 1e6, took: took, armed: armed, first: first, answers: answers, left: left}
	if reducers > 0 {
		m.reducers = (usedBy(b, processes) - theirs).Seconds() / took / float64(reducers)
		b.ReportMetric(m.reducers, "CPUs-of-reducer")
	}
	slices.Sort(delays)
	if len(delays) > 0 {
		m.median, m.worst = delays[len(delays)/2], delays[len(delays)-1]
	}
	b.ReportMetric(m.CPUs, "CPUs")
	b.ReportMetric(m.CPUs*took/float64(answers), "CPU-s/answer")
	b.ReportMetric(m.rate, "MB/s")
	b.ReportMetric(armed.Seconds(), "s-to-armed")
	b.ReportMetric(first.Seconds(), "s-to-first")
	b.ReportMetric(m.median.Seconds(), "s-delay")
	b.Log(r.Summary().Notes)
	if answers <= 1 {
		return nil
	}
	return m
}

// usedBy returns the processor time of other processes.
func usedBy(b *testing.B, all []*process) (d time.Duration) {
	for _, p := range all {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		for _, ticks := range strings.Fields(rest)[11:13] { // utime, stime, in 1/100 s
			n, err := strconv.Atoi(ticks)
			if err != nil {
				b.Fatal(err)
			}
			d += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return d
}
