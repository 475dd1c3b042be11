package server_test

import (
	"bufio"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// BenchmarkBudget is what a query of all functions WITHIN OVERHEAD leaves of a server's work. Two
// equal servers run at a time under equal loads that never pause. One is observed, and the other
// is not: what else runs on the machine slows both. The witness is requests for each second of
// the server's processor time, which does not depend on how much of a processor it gets, in
// windows of a second of both; the ratio of the same two servers before the query is taken out
// of it, and that of every other of these windows to the rest is the control. Requests for each
// second of time are beside it. Intervals do not allow for what is uncertain about the ratio
// before. The table is testdata/figures/budget.md.
//
//	go test -run '^$' -bench Budget -benchtime 1x -timeout 30m ./server
func BenchmarkBudget(b *testing.B) {
	testenv.NeedUprobes(b)
	for b.Loop() {
		var rows []string
		for _, c := range []struct {
			name string
			one  func(testing.TB) *loaded
			late bool
		}{
			{"redis-server, load from before", loadedRedis, false},
			{"redis-server, load 5 s after the query", loadedRedis, true},
			{"PostgreSQL, pgbench -S of one client", func(t testing.TB) *loaded { return loadedPostgres(t, "-S", 1) }, false},
			{"PostgreSQL, pgbench -S of eight clients", func(t testing.TB) *loaded { return loadedPostgres(t, "-S", 8) }, false},
			{"a server in Go", loadedGo, false},
		} {
			for _, percent := range []int{1, 5} {
				rows = append(rows, measureBudget(b, c.name, c.one, percent, c.late))
				b.Log(rows[len(rows)-1])
				writeTable(b, "budget.md", "| server, functions | allowed | requests for processor time, of untouched | control | the second with the least | requests for time | overhead as the footer has it |", rows)
			}
		}
	}
}

// writeTable writes a table to testdata/figures.
func writeTable(b *testing.B, name, head string, rows []string) {
	lines := append([]string{head, strings.Repeat("|---", strings.Count(head, "|")-1) + "|"}, rows...)
	if err := os.WriteFile(filepath.Join("testdata/figures", name), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		b.Fatal(err)
	}
}

const (
	budgetRuns    = 3
	budgetBefore  = 5  // windows
	budgetSeconds = 12 // of a query
	budgetLate    = 5  // windows until the load comes
)

// loaded is a server with a load.
type loaded struct {
	options   wire.Options
	functions string // the condition of the query
	requests  func() int64
	cpu       func() time.Duration
	begin     func() // the load
	end       func()
}

// window is what a server did in a second.
type window struct{ perCPU, perTime float64 }

// measureBudget returns a row of the table.
func measureBudget(b *testing.B, name string, one func(testing.TB) *loaded, percent int, late bool) string {
	servers := []*loaded{one(b), one(b)}
	var ratios, times, control []float64
	var said []string
	least := math.Inf(1)
	n := 0
	for run := range budgetRuns {
		observed, other := servers[run%2], servers[1-run%2]
		observe := func() (perCPU, perTime float64) {
			w := windows([]*loaded{observed, other})
			return math.Log(w[0].perCPU / w[1].perCPU), math.Log(w[0].perTime / w[1].perTime)
		}
		both := func(f func(*loaded)) {
			for _, s := range servers {
				f(s)
			}
		}
		both(func(s *loaded) { s.begin() })
		observe()
		var before, beforeTime []float64
		for range budgetBefore {
			x, y := observe()
			before, beforeTime = append(before, x), append(beforeTime, y)
		}
		for i, x := range before {
			control = append(control, float64(1-2*(i%2))*(x-stat.Mean(before, nil)))
		}
		if late {
			both(func(s *loaded) { s.end() })
		}
		s := newSession(b, observed.options)
		ask(b, s, "SET max_text_copy = 1073741824")
		q := start(b, s, fmt.Sprintf("SELECT function_name, COUNT(*) FROM function_start WHERE %s GROUP BY function_name FOR %ds WITHIN OVERHEAD %d%%", observed.functions, budgetSeconds, percent))
		seconds := budgetSeconds - 1
		if late {
			time.Sleep(budgetLate * time.Second)
			both(func(s *loaded) { s.begin() })
			seconds -= budgetLate
		}
		for range seconds {
			x, y := observe()
			x, y = x-stat.Mean(before, nil), y-stat.Mean(beforeTime, nil)
			ratios, times = append(ratios, x), append(times, y)
			least = min(least, x)
		}
		a := read(b, q)
		notes := strings.Join(a.summary.Notes, "\n")
		if m := regexp.MustCompile(`overhead ([0-9.e+-]+) %`).FindStringSubmatch(notes); m != nil {
			said = append(said, m[1])
		}
		if m := regexp.MustCompile(`(\d+) functions were observed all the time, (\d+) in`).FindStringSubmatch(notes); m != nil {
			always, _ := strconv.Atoi(m[1])
			sliced, _ := strconv.Atoi(m[2])
			n = always + sliced
		}
		b.Logf("run %d of %s at %d %%: %s", run, name, percent, notes)
		q.Close()
		both(func(s *loaded) { s.end() })
	}
	return fmt.Sprintf("| %s, %d functions | %d %% | %s | %s | %.1f %% | %s | %s %% |", name, n, percent,
		percentOf(ratios), percentOf(control), 100*math.Exp(least), percentOf(times), strings.Join(said, ", "))
}

// percentOf returns the geometric mean of ratios with its interval of 95 %, given their
// logarithms.
func percentOf(logs []float64) string {
	mean, deviation := stat.MeanStdDev(logs, nil)
	n := float64(len(logs))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*math.Exp(mean), 100*math.Exp(mean-half), 100*math.Exp(mean+half))
}

// windows measures servers at a time, for a second.
func windows(servers []*loaded) []window {
	type moment struct {
		requests int64
		cpu      time.Duration
		at       time.Time
	}
	look := func() (all []moment) {
		for _, s := range servers {
			all = append(all, moment{s.requests(), s.cpu(), time.Now()})
		}
		return all
	}
	before := look()
	time.Sleep(time.Second)
	after := look()
	out := make([]window, len(servers))
	for i := range servers {
		requests := float64(max(after[i].requests-before[i].requests, 1))
		out[i] = window{requests / max(after[i].cpu-before[i].cpu, time.Millisecond).Seconds(), requests / after[i].at.Sub(before[i].at).Seconds()}
	}
	return out
}

// cpuTimeOf returns the processor time of a process.
func cpuTimeOf(pid int) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|2, &t) != nil { // MAKE_PROCESS_CPUCLOCK of the kernel
		return 0
	}
	return time.Duration(t.Nano())
}

// prefer gives a program precedence over what else runs on the machine, where that is allowed.
func prefer(pid int) { _ = syscall.Setpriority(syscall.PRIO_PROCESS, pid, -15) }

// loadOf returns functions that begin and end a program.
func loadOf(t testing.TB, command func() *exec.Cmd, output func(*exec.Cmd)) (begin, end func()) {
	var running *exec.Cmd
	end = func() {
		if running != nil {
			running.Process.Kill()
			running.Wait()
			running = nil
		}
	}
	t.Cleanup(end)
	return func() {
		running = command()
		output(running)
		if err := running.Start(); err != nil {
			t.Fatal(err)
		}
		prefer(running.Process.Pid)
	}, end
}

func loadedRedis(t testing.TB) *loaded {
	program := testenv.NeedProgram(t, "redis-benchmark")
	r := startRedis(t)
	prefer(r.pid)
	l := &loaded{options: wire.Options{PID: r.pid}, functions: "function_name LIKE '%'"}
	l.requests, l.cpu = func() int64 { return r.calls(t) }, func() time.Duration { return cpuTimeOf(r.pid) }
	l.begin, l.end = loadOf(t, func() *exec.Cmd {
		return exec.Command(program, "-p", strconv.Itoa(r.port), "-q", "-c", "16", "-t", "get,set", "-n", "50000000") // minutes
	}, func(*exec.Cmd) {})
	return l
}

// loadedPostgres is a server for a script of pgbench, by its option, with some clients.
func loadedPostgres(t testing.TB, script string, clients int) *loaded {
	rate := regexp.MustCompile(`^progress: [0-9.]+ s, ([0-9.]+) tps`)
	p := startPostgres(t, "log_statement=none")
	p.pgbench("-i", "-s", "1", "-q")
	var done atomic.Int64
	l := &loaded{options: wire.Options{Exe: p.exe}, functions: "function_name NOT LIKE 'sub\\_%'"}
	l.requests = done.Load
	l.cpu = func() (sum time.Duration) {
		for _, pid := range processesOf(p.exe) {
			prefer(pid)
			sum += cpuTimeOf(pid)
		}
		return sum
	}
	l.begin, l.end = loadOf(t, func() *exec.Cmd {
		return p.command("pgbench", "-h", p.dir, "-p", strconv.Itoa(p.port), script, "-n", "-T", "1200", "-c", strconv.Itoa(clients), "-P", "1", "bench")
	}, func(cmd *exec.Cmd) {
		out, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				if m := rate.FindStringSubmatch(lines.Text()); m != nil {
					n, _ := strconv.ParseFloat(m[1], 64)
					done.Add(int64(n))
				}
			}
		}()
	})
	return l
}

// processesOf returns the processes that execute a program.
func processesOf(exe string) (pids []int) {
	list, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range list {
		if to, err := os.Readlink(link); err == nil && to == exe {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// BenchmarkBudgetIntervals is how often the truth is within the bounds of counts: of a program that
// counts its calls itself, and of redis-server, by INFO commandstats. The line is kept in
// testdata/figures/budget-intervals.md.
//
//	go test -run '^$' -bench BudgetIntervals -benchtime 1x -timeout 30m ./server -budget.runs 40
func BenchmarkBudgetIntervals(b *testing.B) {
	testenv.NeedUprobes(b)
	for b.Loop() {
		rows := []string{ownCounts(b, *budgetIntervalRuns), commandCounts(b, max(*budgetIntervalRuns/4, 2))}
		writeTable(b, "budget-intervals.md", "| counts of | runs | counts in slices | within their bounds | with two bounds | within these | median half width | said to be exact | exact |", rows)
	}
}

var budgetIntervalRuns = flag.Int("budget.runs", 20, "runs of BenchmarkBudgetIntervals")

// coverage counts intervals.
type coverage struct {
	runs, sliced, within, bounded, withinBoth, exact, right int
	halves                                                  []float64
}

// add adds a count with its bounds.
func (c *coverage) add(exact bool, value, low, high string, truth int64) {
	if exact {
		c.exact++
		if value == fmt.Sprint(truth) {
			c.right++
		}
		return
	}
	c.sliced++
	l, lowErr := strconv.ParseFloat(low, 64)
	h, highErr := strconv.ParseFloat(high, 64)
	in := (lowErr != nil || l <= float64(truth)) && (highErr != nil || float64(truth) <= h)
	if in {
		c.within++
	}
	if lowErr != nil || highErr != nil {
		return
	}
	c.bounded++
	c.halves = append(c.halves, (h-l)/(h+l))
	if in {
		c.withinBoth++
	}
}

func (c *coverage) row(of string) string {
	half := "none"
	if len(c.halves) > 0 {
		slices.Sort(c.halves)
		half = fmt.Sprintf("%.0f %%", 100*c.halves[len(c.halves)/2])
	}
	share := func(n, of int) string { return fmt.Sprintf("%d (%.1f %%)", n, 100*float64(n)/float64(max(of, 1))) }
	return fmt.Sprintf("| %s | %d | %d | %s | %d | %s | %s | %d | %s |", of, c.runs, c.sliced, share(c.within, c.sliced), c.bounded, share(c.withinBoth, c.bounded), half, c.exact, share(c.right, c.exact))
}

// ownCounts is of a program that counts itself, under a load that begins before the query or after.
func ownCounts(b *testing.B, runs int) string {
	const functions, hot = 100, 8
	path := testenv.CompileCText(b, crowd(functions, hot), "-O1", "-pthread", "-fcf-protection=none", "-fno-omit-frame-pointer")
	c := coverage{runs: runs}
	for range runs {
		p := startProgram(b, path)
		s := newSession(b, wire.Options{PID: p.pid})
		q := start(b, s, "SELECT function_name, COUNT(*) AS n, exact(COUNT(*)) FROM function_start WHERE function_name LIKE 'f%' GROUP BY function_name WITHIN OVERHEAD 20%")
		fmt.Fprintln(p.in, 60_000)
		p.out.Scan()
		truth := strings.Fields(p.out.Text())
		q.Stop()
		for _, r := range read(b, q).rows {
			if i, err := strconv.Atoi(r[0][1:]); err == nil && i < functions {
				n, _ := strconv.ParseInt(truth[i], 10, 64)
				c.add(r[2] == "true", r[1], r[3], r[4], n)
			}
		}
		q.Close()
		p.in.Close()
	}
	row := c.row("a program that counts itself, 20 % allowed")
	b.Log(row)
	return row
}

// commandCounts is of functions that redis-server calls once for each command.
func commandCounts(b *testing.B, runs int) string {
	program := testenv.NeedProgram(b, "redis-benchmark")
	c := coverage{runs: runs}
	for range runs {
		r := startRedis(b)
		s := newSession(b, wire.Options{PID: r.pid})
		q := start(b, s, "SELECT function_name, COUNT(*) AS n, exact(COUNT(*)) FROM function_start WHERE function_name IN (call, processCommand) GROUP BY function_name WITHIN OVERHEAD 20%")
		before := r.calls(b)
		if out, err := exec.Command(program, "-p", strconv.Itoa(r.port), "-q", "-c", "16", "-t", "get,set", "-n", "100000").CombinedOutput(); err != nil {
			b.Fatalf("redis-benchmark: %v\n%s", err, out)
		}
		truth := r.calls(b) - before // with the first INFO, and without the second, which the query has
		q.Stop()
		for _, x := range read(b, q).rows {
			c.add(x[2] == "true", x[1], x[3], x[4], truth+1)
		}
		q.Close()
	}
	row := c.row("commands of redis-server, 20 % allowed")
	b.Log(row)
	return row
}
