package server_test

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

const (
	functionWindow  = 2 * time.Second
	functionWindows = 3   // with probes, after one without
	functionBatch   = 400 // functions counted at a time to find those that are called
)

var functionRounds = flag.Int("functions.rounds", 1, "rounds of BenchmarkFunctions")

// BenchmarkFunctions is what is left of a server's throughput while a share of the functions that
// it calls is counted, those that are called least first: exactly, within an overhead, and by bpftrace.
// It is the form of figures 2 to 4 of the EndoScope paper (Cheung and Madden, VLDB 2008) for a machine
// with uprobes. Each point is compared with the windows without probes before and after it. The table is
// testdata/figures/functions.md, and the picture functions.svg beside it.
//
//	go test -run '^$' -bench 'Functions$' -benchtime 1x -timeout 60m ./server
func BenchmarkFunctions(b *testing.B) {
	testenv.NeedUprobes(b)
	var panels []panel
	for _, c := range []struct {
		name    string
		make    func(testing.TB) *loaded
		without []string // prefixes of functions that are left out
	}{
		{"redis-server, get and set", loadedRedis, nil},
		{"PostgreSQL, pgbench -S", func(t testing.TB) *loaded { return loadedPostgres(t, "-S", 4) }, []string{"sub_"}},
		// Those of the runtime include its scheduler and collector.
		{"a server in Go", loadedGo, []string{"runtime.", "internal/runtime/"}},
		{"PostgreSQL, pgbench as TPC-B", func(t testing.TB) *loaded { return loadedPostgres(t, "-btpcb-like", 4) }, []string{"sub_"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				panels = append(panels, measurePanel(b, c.name, c.make(b), c.without))
				writePanels(b, panels)
			}
		})
	}
}

// counters are the ways to count calls of functions. begin returns what ends it, nil if it cannot.
var counters = []struct {
	name  string
	begin func(b *testing.B, s wire.Session, o wire.Options, functions []called) (end func())
}{
	{"exactly", engineCounts("")},
	{"within 1 %", engineCounts(" WITHIN OVERHEAD 1%")},
	{"within 5 %", engineCounts(" WITHIN OVERHEAD 5%")},
	{"bpftrace", bpftraceCounts},
}

// called is a function that a server calls.
type called struct {
	name, address string
	calls         int64
}

// panel is the figures of one server.
type panel struct {
	name      string
	functions int
	rate      float64 // requests/s without probes
	points    map[string][]point
}

// point is the throughput with a share of the functions counted, of that without, with its interval of
// 95 %.
type point struct{ percent, low, mean, high float64 }

var functionShares = []int{25, 50, 75, 100}

func measurePanel(b *testing.B, name string, l *loaded, leftOut []string) panel {
	s := newSession(b, l.options)
	for _, set := range []string{"SET max_text_copy = 1073741824", "SET max_overhead = 0", "SET max_probes = 100000"} {
		ask(b, s, set)
	}
	l.begin()
	defer l.end()
	functions := calledUnder(b, s, leftOut)
	p := panel{name: name, functions: len(functions), points: map[string][]point{}}
	var none []float64
	ratios := map[string]map[int][]float64{}
	rate := func() float64 {
		before, at := l.requests(), time.Now()
		time.Sleep(functionWindow)
		return float64(l.requests()-before) / time.Since(at).Seconds()
	}
	without := func() float64 {
		none = append(none, rate())
		return none[len(none)-1]
	}
	for range *functionRounds {
		before := without()
		for _, percent := range functionShares {
			for _, c := range counters {
				end := c.begin(b, s, l.options, functions[:len(functions)*percent/100])
				if end == nil {
					continue
				}
				var with []float64
				for range functionWindows {
					with = append(with, max(rate(), 0.1))
				}
				end()
				time.Sleep(300 * time.Millisecond) // detaching is over
				after := without()
				if ratios[c.name] == nil {
					ratios[c.name] = map[int][]float64{}
				}
				for _, r := range with {
					ratios[c.name][percent] = append(ratios[c.name][percent], math.Log(r/math.Sqrt(before*after)))
				}
				b.Logf("%s, %d %% of %d functions %s: %.0f of %.0f and %.0f", name, percent, len(functions), c.name, with, before, after)
				before = after
			}
		}
	}
	p.rate = stat.Mean(none, nil)
	for _, c := range counters {
		for _, percent := range functionShares {
			logs := ratios[c.name][percent]
			if len(logs) == 0 {
				continue
			}
			mean, deviation := stat.MeanStdDev(logs, nil)
			n := float64(len(logs))
			half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
			p.points[c.name] = append(p.points[c.name], point{float64(percent), 100 * math.Exp(mean-half), 100 * math.Exp(mean), 100 * math.Exp(mean+half)})
		}
	}
	return p
}

// calledUnder returns the functions that a server calls under its load, the one that is called least
// first. They are looked for in batches, so that the server does not stand still.
func calledUnder(b *testing.B, s wire.Session, leftOut []string) (list []called) {
	addresses := map[string]string{}
	var names []string
	for _, row := range ask(b, s, "SHOW FUNCTIONS").rows {
		name, address := row[0], row[3]
		if slices.ContainsFunc(leftOut, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		if _, seen := addresses[name]; !seen {
			names = append(names, name)
			addresses[name] = address // others are parts of it
		}
	}
	for batch := range slices.Chunk(names, functionBatch) {
		a := ask(b, s, countCalls(batch)+" FOR 300ms")
		for i, row := range a.rows {
			list = append(list, called{row[0], addresses[row[0]], number(b, a, i, 1)})
		}
	}
	slices.SortFunc(list, func(x, y called) int {
		return cmp.Or(cmp.Compare(x.calls, y.calls), strings.Compare(x.name, y.name))
	})
	return list
}

func engineCounts(clause string) func(*testing.B, wire.Session, wire.Options, []called) func() {
	return func(b *testing.B, s wire.Session, _ wire.Options, functions []called) func() {
		names := make([]string, len(functions))
		for i, f := range functions {
			names[i] = f.name
		}
		q := start(b, s, countCalls(names)+clause)
		return func() {
			q.Stop()
			read(b, q)
			q.Close()
		}
	}
}

// bpftraceCounts counts in one map of bpftrace, by address.
func bpftraceCounts(b *testing.B, _ wire.Session, o wire.Options, functions []called) func() {
	testenv.NeedProgram(b, "bpftrace")
	exe := o.Exe
	if exe == "" {
		exe, _ = os.Readlink(fmt.Sprintf("/proc/%d/exe", o.PID))
	}
	var text strings.Builder
	for i, f := range functions {
		if i > 0 {
			text.WriteString(",\n")
		}
		fmt.Fprintf(&text, "uprobe:%s:%s", exe, f.address)
	}
	// Probes are attached in this order.
	text.WriteString(" { @[reg(\"ip\")] = count(); }\ninterval:ms:50 { printf(\"ready\\n\"); }\n")
	file := filepath.Join(b.TempDir(), "count.bt")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	end, said := runBpftrace(b, []string{"BPFTRACE_MAX_PROBES=100000", "BPFTRACE_MAX_BPF_PROGS=100000"}, "--unsafe", file)
	if end == nil {
		b.Logf("bpftrace does not count %d functions: %.500s", len(functions), said)
	}
	return end
}

// loadedGo is a server in Go, which counts its requests, and a load of four connections.
func loadedGo(t testing.TB) *loaded {
	exe := testenv.CompileGoText(t, `package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sort"
	"sync"
	"sync/atomic"
)

var requests atomic.Int64

func answer(w http.ResponseWriter, r *http.Request) {
	n := requests.Add(1)
	list := map[string]int64{}
	for i := range int64(20) {
		list[fmt.Sprint("key", i*n%97)] = i
	}
	var keys []string
	for k := range list {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	_ = json.NewEncoder(w).Encode(keys)
}

func main() {
	if os.Args[1] == "serve" {
		http.HandleFunc("/", answer)
		http.HandleFunc("/count", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, requests.Load()) })
		fmt.Println(http.ListenAndServe(os.Args[2], nil))
		return
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				r, err := http.Get("http://" + os.Args[2] + "/")
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, r.Body)
				r.Body.Close()
			}
		})
	}
	all.Wait()
}
`)
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	pid := testenv.Run(t, exec.Command(exe, "serve", address))
	count := func() (int64, error) {
		r, err := http.Get("http://" + address + "/count")
		if err != nil {
			return 0, err
		}
		defer r.Body.Close()
		line, _ := bufio.NewReader(r.Body).ReadString(0)
		return strconv.ParseInt(line, 10, 64)
	}
	testenv.UntilNil(t, "the server answers", func() error { _, err := count(); return err })
	l := &loaded{options: wire.Options{PID: pid}, functions: "function_name LIKE '%'"}
	l.requests = func() int64 {
		n, err := count()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	l.cpu = func() time.Duration { return cpuTimeOf(pid) }
	l.begin, l.end = loadOf(t, func() *exec.Cmd { return exec.Command(exe, "load", address) }, func(*exec.Cmd) {})
	return l
}

// writePanels writes the table and the picture.
func writePanels(b *testing.B, panels []panel) {
	var rows []string
	for _, p := range panels {
		for _, c := range counters {
			row := fmt.Sprintf("| %s, %d functions, %.0f requests/s | %s |", p.name, p.functions, p.rate, c.name)
			for _, percent := range functionShares {
				cell := " cannot |" // attach so many
				for _, x := range p.points[c.name] {
					if x.percent == float64(percent) {
						cell = fmt.Sprintf(" %.3g %% (%.3g to %.3g) |", x.mean, x.low, x.high)
					}
				}
				row += cell
			}
			rows = append(rows, row)
		}
	}
	writeTable(b, "functions.md", "| server | counted | 25 % | 50 % | 75 % | all |", rows)
	if err := os.WriteFile("testdata/figures/functions.svg", []byte(picture(panels)), 0o644); err != nil {
		b.Fatal(err)
	}
}

// picture draws a panel for each server, two in a row: throughput against the share of functions.
func picture(panels []panel) string {
	const wide, high, left, top, plotWide, plotHigh = 400, 250, 52, 40, 320, 160
	colours := []string{"#b3261e", "#1b5e9e", "#2e7d32", "#8a6d00"}
	marks := []string{"", "6 3", "2 3", "8 3 2 3"}
	var out strings.Builder
	rows := (len(panels) + 1) / 2
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11"><rect width="100%%" height="100%%" fill="#fff"/>`+"\n", 2*wide, rows*high+30)
	for i, p := range panels {
		fmt.Fprintf(&out, `<g transform="translate(%d,%d)"><text x="%d" y="18" font-size="12" font-weight="bold">%s</text><text x="%d" y="32" fill="#555">%d functions called, %.0f requests/s</text>`+"\n",
			i%2*wide, i/2*high, left, p.name, left, p.functions, p.rate)
		x := func(percent float64) float64 { return left + plotWide*percent/100 }
		y := func(percent float64) float64 { return top + plotHigh*(1-min(max(percent, 0), 125)/125) }
		for _, v := range []float64{0, 25, 50, 75, 100} {
			fmt.Fprintf(&out, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f %%</text><text x="%.1f" y="%d" text-anchor="middle">%.0f %%</text>`+"\n",
				left, y(v), left+plotWide, y(v), left-6, y(v)+4, v, x(v), top+plotHigh+16, v)
		}
		for k, c := range counters {
			line := fmt.Sprintf("%.1f,%.1f", x(0), y(100))
			for _, pt := range p.points[c.name] {
				line += fmt.Sprintf(" %.1f,%.1f", x(pt.percent), y(pt.mean))
				fmt.Fprintf(&out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x(pt.percent), y(pt.low), x(pt.percent), y(pt.high), colours[k])
			}
			fmt.Fprintf(&out, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", line, colours[k], marks[k])
		}
		fmt.Fprintf(&out, `<text x="%d" y="%d" text-anchor="middle" fill="#555">of the functions are counted</text></g>`+"\n", left+plotWide/2, top+plotHigh+32)
	}
	for k, c := range counters {
		fmt.Fprintf(&out, `<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			left+k*170, rows*high+15, left+k*170+30, rows*high+15, colours[k], marks[k], left+k*170+36, rows*high+19, c.name)
	}
	out.WriteString("</svg>\n")
	return out.String()
}
