package server

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// database is testdata/tpcc, waiting for work.
type database struct {
	b    *testing.B
	cmd  *exec.Cmd
	in   io.Writer
	says *bufio.Scanner
	own  int64 // what this process had used when the database began to work, ns
}

// buildDatabase compiles testdata/tpcc with SQLite inside, so that its functions
// are the program's own, and beside it the reference, with the library's SQLite.
func buildDatabase(b *testing.B) (path string) {
	libs, _ := filepath.Glob("/usr/lib/*/libsqlite3.a")
	if len(libs) == 0 {
		testenv.Skip(b, "needs SQLite as a static library (Debian: libsqlite3-dev)")
	}
	testenv.NeedProgram(b, "gcc")
	path = filepath.Join(b.TempDir(), "tpcc")
	// Frame pointers make functions begin with a push, which is cheap to probe.
	args := []string{"-O2", "-fno-omit-frame-pointer", "-o", path, "testdata/tpcc/tpcc.c", libs[0], "-lm", "-lpthread", "-ldl", "-lz"}
	if said, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		b.Fatalf("gcc %v: %v\n%s", args, err, said)
	}
	args = []string{"-O2", "-fno-omit-frame-pointer", "-DREFERENCE", "-shared", "-fPIC", "-o", path + ".so", "testdata/tpcc/tpcc.c", "-lsqlite3"}
	if said, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		b.Fatalf("gcc %v: %v\n%s", args, err, said)
	}
	return path
}

// startDatabase starts it with threads that sleep.
func startDatabase(b *testing.B, path string, threads int) *database {
	d := &database{b: b, cmd: exec.Command(path, fmt.Sprint(threads), path+".so")}
	var err error
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(d.end)
	d.says = bufio.NewScanner(out)
	if !d.says.Scan() || d.says.Text() != "ready" {
		b.Fatalf("the database says %q", d.says.Text())
	}
	return d
}

// spin ends when who started it has, however that did.
const spin = `while kill -0 $PPID; do i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; done`

// keepAwake keeps the machine's processors from idling until the benchmark ends, as
// the kernel's idle=poll would, by processes that run only where nothing else wants
// to: how long a virtual processor takes to wake, and in what state its caches are
// then, differs by more than what is measured.
func keepAwake(b *testing.B) {
	testenv.NeedProgram(b, "chrt")
	for range runtime.NumCPU() {
		cmd := exec.Command("chrt", "--idle", "0", "sh", "-c", spin)
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			cmd.Process.Kill()
			cmd.Wait()
		})
	}
}

func (d *database) end() {
	if d.cmd.ProcessState == nil {
		_ = d.cmd.Process.Kill() // it may have ended
		_ = d.cmd.Wait()
	}
}

// worked is what the database did.
type worked struct {
	used float64 // processor time, ns: the database's, with the traps of probes, and this process's, in which the engine runs
	made float64 // transactions
	// reference is what a transaction took in the same moments of the database that
	// nobody watches, ns; 0: the schedule has none.
	reference float64
}

// perTransaction is what was used of processor time for one transaction, ns.
func (w worked) perTransaction() float64 { return math.Round(w.used / w.made) }

// work makes the database work by a schedule for some time.
func (d *database) work(shape string, t time.Duration) worked {
	d.begin(shape, t)
	return d.finish()
}

// begin makes the database begin to work; finish waits for its end.
func (d *database) begin(shape string, t time.Duration) {
	d.own = processorTime()
	fmt.Fprintln(d.in, shape, t.Milliseconds())
}

func (d *database) finish() (w worked) {
	if !d.says.Scan() {
		d.b.Fatalf("the database ended: %v", d.says.Err())
	}
	own := processorTime() - d.own
	var other, others float64
	if _, err := fmt.Sscan(d.says.Text(), &w.used, &w.made, &other, &others); err != nil || w.made == 0 {
		d.b.Fatalf("the database says %q: %v", d.says.Text(), err)
	}
	w.used += float64(own)
	if others > 0 {
		w.reference = math.Round(other / others)
	}
	return w
}

// processorTime is what this process has used, ns.
func processorTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // the clock exists
	}
	return t.Nano()
}

// callCount says of a function how often a transaction calls it, and how long it
// takes with all functions probed.
type callCount struct {
	name string
	n    float64
	mean float64 // ns
}

// mostCalls is how many calls a transaction makes of all functions that the
// experiment probes, so that all of them together cost a few times what a
// transaction does.
const mostCalls = 300

// countedFunctions are the database's functions that transactions and reports
// call least, up to mostCalls. Those that would have to be single-stepped, at
// twenty times the price, are left out.
func countedFunctions(b *testing.B, path string) []callCount {
	d := startDatabase(b, path, 0)
	defer d.end()
	s := sessionOn(b, d)
	configure(b, s, "infer_counts = off", "max_overhead = 1000000")
	q := ask(b, s, `SELECT function_name, COUNT(*), AVG(duration) FROM function_duration WHERE function_name LIKE '%' GROUP BY function_name`)
	made := d.work("bursts", 500*time.Millisecond).made
	p := ask(b, s, `SELECT function_name FROM sys.probes WHERE method = 'emulated'`)
	emulated := map[string]bool{}
	for _, row := range p.rows(false) {
		emulated[row[0].S] = true
	}
	var all []callCount
	for _, row := range q.rows(true) {
		c := callCount{name: row[0].S, n: float64(row[1].I) / made, mean: float64(row[2].I)}
		if emulated[c.name] && c.name != "digest" {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(x, y callCount) int { return cmp.Or(cmp.Compare(x.n, y.n), strings.Compare(x.name, y.name)) })
	sum := 0.0
	for i, c := range all {
		if sum += c.n; sum > mostCalls {
			return all[:i]
		}
	}
	return all
}

// inNoOrder shuffles functions, always alike.
func inNoOrder(x, y callCount) int {
	hash := func(s string) uint64 {
		h := fnv.New64a()
		io.WriteString(h, s)
		return h.Sum64()
	}
	return cmp.Compare(hash(x.name), hash(y.name))
}

// longestFirst puts those first that run for long, which are called rarely.
func longestFirst(x, y callCount) int {
	return cmp.Or(cmp.Compare(y.mean, x.mean), strings.Compare(x.name, y.name))
}

// sessionOn is a session, of an engine of its own, that looks at a database.
func sessionOn(b *testing.B, d *database) *session {
	e, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	s, err := newSession(context.Background(), e, wire.Options{PID: d.cmd.Process.Pid}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return s
}

// configure runs SET for each of the settings.
func configure(b *testing.B, s *session, settings ...string) {
	for _, x := range settings {
		ask(b, s, "SET "+x).rows(false)
	}
}

// asked is a statement whose answer is being read.
type asked struct {
	b      *testing.B
	text   string
	result wire.Result
	read   chan struct{}
	given  [][]types.Value
}

// ask runs a statement: when it returns, a query is armed.
func ask(b *testing.B, s *session, text string) *asked {
	b.Helper()
	r, err := s.Execute(context.Background(), text)
	if err != nil {
		b.Fatalf("%s: %v", text, err)
	}
	q := &asked{b: b, text: text, result: r, read: make(chan struct{})}
	go func() {
		defer close(q.read)
		for {
			ev, err := r.Next(context.Background())
			if err != nil {
				return
			}
			if ev.Batch == nil {
				continue
			}
			for i := range ev.Batch.Len() {
				var row []types.Value
				for _, c := range ev.Batch.Cols {
					row = append(row, c.Value(ev.Batch.Row(i)))
				}
				q.given = append(q.given, row)
			}
			ev.Batch.Release()
		}
	}()
	return q
}

// rows are all that the statement gives; stop ends it first.
func (q *asked) rows(stop bool) [][]types.Value {
	q.b.Helper()
	if stop {
		q.result.Stop()
	}
	<-q.read
	for _, l := range q.result.Summary().Losses {
		q.b.Logf("%.60s lost %d: %s", q.text, l.N, l.Cause)
	}
	q.result.Close()
	return q.given
}
