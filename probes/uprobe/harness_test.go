package uprobe

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
)

func TestMain(m *testing.M) {
	if os.Getenv(attachEnv) != "" {
		attachAndHang()
	}
	goleak.VerifyTestMain(m)
}

// record is a sink that stores everything.
type record struct {
	mu     sync.Mutex
	names  []string
	rows   [][]types.Value
	parts  [][]types.Value // partial rows
	lost   map[string]uint64
	counts map[string]uint64
	marks  []int64
	late   int // rows at or before an earlier watermark
	time   int // column of the time, -1: none
	ended  chan struct{}
	err    error
	hold   chan struct{} // if set, Push waits until it is closed
}

func newRecord(spec *plan.Acquire) *record {
	r := &record{lost: map[string]uint64{}, counts: map[string]uint64{}, ended: make(chan struct{}), time: spec.Out.Time}
	for _, f := range spec.Out.Fields {
		r.names = append(r.names, f.Name)
	}
	return r
}

func (r *record) Push(b *batch.Batch) {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.Len() {
		row := make([]types.Value, len(b.Cols))
		for c := range b.Cols {
			row[c] = b.Cols[c].Value(b.Row(i))
		}
		if r.time >= 0 && len(r.marks) > 0 && row[r.time].I < r.marks[len(r.marks)-1] {
			r.late++
		}
		r.rows = append(r.rows, row)
	}
	b.Release()
}

func (r *record) Partial(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.Len() {
		row := make([]types.Value, len(b.Cols))
		for c := range b.Cols {
			row[c] = b.Cols[c].Value(b.Row(i))
		}
		if len(r.marks) > 0 && row[0].I < r.marks[len(r.marks)-1] {
			r.late++
		}
		r.parts = append(r.parts, row)
	}
	b.Release()
}

func (r *record) Watermark(t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, t)
}

func (r *record) Lost(cause string, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[cause] += n
}

func (r *record) Count(cause string, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[cause] += n
}

func (r *record) End(err error) {
	r.err = err
	close(r.ended)
}

// causes returns the causes of the losses so far.
func (r *record) causes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.lost))
}

// has reports whether a row has value in the column name.
func (r *record) has(name, value string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := slices.Index(r.names, name)
	return slices.ContainsFunc(r.rows, func(row []types.Value) bool { return row[c].S == value })
}

// wait waits until the stream ends by itself.
func (r *record) wait(t testing.TB) *record {
	t.Helper()
	select {
	case <-r.ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("the stream does not end")
	}
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r
}

// ints returns a column of numbers.
func (r *record) ints(name string) []int64 {
	c := slices.Index(r.names, name)
	out := make([]int64, len(r.rows))
	for i, row := range r.rows {
		out[i] = row[c].I
	}
	return out
}

// strings returns a column of strings.
func (r *record) strings(name string) []string {
	c := slices.Index(r.names, name)
	out := make([]string, len(r.rows))
	for i, row := range r.rows {
		out[i] = row[c].S
	}
	return out
}

// tally counts values.
func tally[T comparable](vs []T) map[T]int {
	m := map[T]int{}
	for _, v := range vs {
		m[v]++
	}
	return m
}

// running is a target program that waits for a line before it works.
type running struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	ended bool
}

// run starts a program that says "ready" and then waits for a line.
func run(t testing.TB, path string, args ...string) *running {
	t.Helper()
	return runCommand(t, exec.Command(path, args...))
}

// runCommand is run for a given command.
func runCommand(t testing.TB, cmd *exec.Cmd) *running {
	t.Helper()
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r := &running{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
	t.Cleanup(func() {
		if !r.ended {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	r.awaitReady()
	return r
}

func (r *running) target() plan.Target { return plan.Target{PIDs: []int{r.cmd.Process.Pid}} }

func (r *running) line() string {
	r.out.Scan()
	return r.out.Text()
}

// awaitReady waits until the target says that it is ready.
func (r *running) awaitReady() {
	r.t.Helper()
	if line := r.line(); line != "ready" {
		r.t.Fatalf("the target said %q", line)
	}
}

// step lets the target continue to its next wait or its end.
func (r *running) step() { fmt.Fprintln(r.in, "go") }

// finish lets the target run to its end and returns its output. want is the expected
// exit status, because fatal exits may be intended.
func (r *running) finish(want string) []string {
	r.t.Helper()
	r.step()
	r.in.Close()
	var lines []string
	for r.out.Scan() {
		lines = append(lines, r.out.Text())
	}
	err := r.cmd.Wait()
	r.ended = true
	if got := fmt.Sprint(err); got != want {
		r.t.Fatalf("target ended with %s, want %s\n%s", got, want, strings.Join(lines, "\n"))
	}
	return lines
}

const success = "<nil>"

// compiled is the input of all tests' providers: reading it takes longer than most tests.
var compiled = sync.OnceValues(program.Read)

// provider returns a provider that is closed at the end of the test, and checks that it
// left nothing attached.
func provider(t testing.TB, o Options) *Provider {
	t.Helper()
	if o.Match == nil {
		o.Match = testplan.Match
	}
	if o.Prices == nil {
		o.Prices = calls.Estimates // the same sites on every machine
	}
	p := New(o)
	p.compiled = compiled
	t.Cleanup(func() {
		if left := p.Probes(); len(left) > 0 {
			t.Errorf("%d probes remain after the test: %+v", len(left), left[0])
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// start prepares and starts an acquisition.
func start(t testing.TB, p *Provider, spec *plan.Acquire) (probes.Source, *record) {
	t.Helper()
	src, err := p.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Stop() })
	sink := newRecord(spec)
	if err := src.Start(context.Background(), sink, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	return src, sink
}

// returnModes runs a test with each way of observing returns that the kernel has.
func returnModes(t *testing.T, f func(t *testing.T, o Options)) {
	trapModes(t, f)
	t.Run("exits", func(t *testing.T) { f(t, Options{Returns: plan.ExitReturns}) })
}

// trapModes runs a test with return traps, through each kind of link that the
// kernel has.
func trapModes(t *testing.T, f func(t *testing.T, o Options)) {
	for k := attach.Session; k <= attach.Perf; k++ {
		t.Run(k.String(), func(t *testing.T) {
			needFeature(t, k.Needs())
			f(t, Options{Links: k.String()})
		})
	}
}

func needFeature(t testing.TB, f attach.Feature) {
	t.Helper()
	if !f.Has() {
		testenv.Skip(t, "needs Linux %s: the kernel has no %s", f.Since, f.Name)
	}
}
