package stack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes"
	"endoscope/probes/clock"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
)

// Positions of columns in the rows of the tests.
var (
	colTime     = catalog.Position(Stream, "timestamp")
	colPID      = catalog.Position(Stream, "pid")
	colTID      = catalog.Position(Stream, "tid")
	colProcess  = catalog.Position(Stream, "process")
	colThread   = catalog.Position(Stream, "thread_name")
	colExe      = catalog.Position(Stream, "exe")
	colState    = catalog.Position(Stream, "state")
	colSyscall  = catalog.Position(Stream, "syscall")
	colStack    = catalog.Position(Stream, "stack")
	colComplete = catalog.Position(Stream, "complete")
)

// record is a sink that stores everything.
type record struct {
	mu     sync.Mutex
	rows   [][]types.Value
	marks  []int64
	late   int // rows behind an earlier watermark
	lost   map[string]uint64
	counts map[string]uint64
	err    error
	ended  chan struct{}
}

func newRecord() *record {
	return &record{lost: map[string]uint64{}, counts: map[string]uint64{}, ended: make(chan struct{})}
}

func (r *record) Push(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.N {
		row := make([]types.Value, len(b.Cols))
		for k := range b.Cols {
			row[k] = b.Cols[k].Value(i)
		}
		if n := len(r.marks); n > 0 && row[0].I < r.marks[n-1] {
			r.late++
		}
		r.rows = append(r.rows, row)
	}
	b.Release()
}

func (r *record) Partial(b *batch.Batch) { b.Release() }
func (r *record) Watermark(t int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.marks = append(r.marks, t)
}
func (r *record) Lost(cause string, n uint64)  { r.mu.Lock(); r.lost[cause] += n; r.mu.Unlock() }
func (r *record) Count(cause string, n uint64) { r.mu.Lock(); r.counts[cause] += n; r.mu.Unlock() }
func (r *record) End(err error)                { r.err = err; close(r.ended) }

func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rows)
}

// specification returns a specification with all columns.
func specification(t plan.Target, every time.Duration) *plan.Acquire {
	return &plan.Acquire{Stream: Stream, Target: t, Every: every, Out: types.Schema{Fields: table.Fields()}}
}

// Rows arrive at the requested rate, in the order of their watermarks, until the
// process has ended.
func TestSource(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider
	r := sleeping(t)
	s, err := p.Prepare(context.Background(), specification(plan.Target{PIDs: []int{r.pid}}, 10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	got := newRecord()
	before := time.Now().UnixNano()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "there are rows", func() bool { return got.len() >= 20 })
	got.mu.Lock()
	lost := got.lost[unsettled] // when it is killed it may wait for a processor
	got.mu.Unlock()
	syscall.Kill(r.pid, syscall.SIGKILL)
	select {
	case <-got.ended:
	case <-time.After(2 * time.Minute):
		t.Fatal("the stream goes on without its process")
	}
	if err := s.Stop(); err != nil || got.err != nil {
		t.Error(err, got.err)
	}
	if got.late > 0 || lost > 0 {
		t.Errorf("%d rows behind a watermark, lost %v", got.late, got.lost)
	}
	for i, row := range got.rows {
		if i > 0 && row[colTime].I <= got.rows[i-1][colTime].I {
			t.Errorf("row %d is not later than the one before", i)
		}
		if row[colTime].I < before || row[colPID].I != int64(r.pid) || row[colTID].I != int64(r.pid) || row[colProcess].S != "sleep" || row[colThread].S != "sleep" || !strings.HasSuffix(row[colExe].S, "/sleep") {
			t.Errorf("row %d is %v", i, row)
		}
	}
	last := got.rows[10]
	if last[colState].S != "WAIT" || last[colSyscall].S != "clock_nanosleep" || last[colComplete].I != 1 {
		t.Errorf("a row is %v", last)
	}
	// Equal stacks are one value.
	a, b := got.rows[10][colStack].A.([]types.Value), got.rows[11][colStack].A.([]types.Value)
	if len(a) == 0 || &a[0] != &b[0] {
		t.Error("a stack was made twice")
	}
}

// A source loaded beforehand samples as usual, with no row from before its start, and
// is released if it is never started.
func TestLoad(t *testing.T) {
	testenv.NeedUprobes(t)
	r := sleeping(t)
	prepare := func() probes.Source {
		t.Helper()
		s, err := provider.Prepare(t.Context(), specification(plan.Target{PIDs: []int{r.pid}}, 10*time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Load(t.Context(), probes.Options{}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	programs := func() (n int) {
		t.Helper()
		fds, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			if to, _ := os.Readlink("/proc/self/fd/" + fd.Name()); to == "anon_inode:bpf-prog" {
				n++
			}
		}
		return n
	}
	before := programs()
	unused, used := prepare(), prepare()
	if n := programs(); n < before+2 {
		t.Errorf("%d programs are loaded, %d were before", n, before)
	}
	if err := unused.Stop(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // time to sample, had it been started
	got, began := newRecord(), clock.Now()
	if err := used.Start(t.Context(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "there are rows", func() bool { return got.len() >= 5 })
	if err := used.Stop(); err != nil {
		t.Fatal(err)
	}
	for i, row := range got.rows {
		if row[colTime].I < began || row[colState].S != "WAIT" {
			t.Errorf("row %d is %v", i, row)
		}
	}
	if n := programs(); n != before {
		t.Errorf("%d programs are left, %d were before", n, before)
	}
}

// A process of the target that starts later is sampled from then on.
func TestLaterProcess(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider
	exe := testenv.NeedProgram(t, "sleep")
	s, err := p.Prepare(context.Background(), specification(plan.Target{Exes: []string{exe}}, 10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	got := newRecord()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	r := run(t, exe, "100")
	testenv.Until(t, "the process is sampled", func() bool {
		found := false
		got.mu.Lock()
		for _, row := range got.rows {
			found = found || row[colPID].I == int64(r.pid)
		}
		got.mu.Unlock()
		return found
	})
	s.Stop()
	<-got.ended
}

// On demand, rows arrive when requested, and only then.
func TestOnDemand(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider
	r := sleeping(t)
	spec := specification(plan.Target{PIDs: []int{r.pid}}, 0)
	spec.OnDemand = true
	s, err := p.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got := newRecord()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if got.len() != n {
			t.Fatalf("%d rows after %d samples", got.len(), n)
		}
		if _, err := s.Control(context.Background(), probes.Sample{}); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
	<-got.ended
}

// Requests that cannot be sampled are rejected before anything is loaded.
func TestRefusals(t *testing.T) {
	p := provider
	for _, c := range []struct {
		spec *plan.Acquire
		want string
	}{
		{specification(plan.Target{PIDs: []int{1}}, 0), "stack_sample has a value at every instant and cannot be read tuple by tuple"},
		{specification(plan.Target{}, time.Second), "stack_sample needs a process"},
		{specification(plan.Target{PIDs: []int{1 << 30}}, time.Second), "there is no process 1073741824"},
		{specification(plan.Target{PIDs: []int{2}}, time.Second), "process 2 (kthreadd) is a kernel thread: it runs no program"},
	} {
		if _, err := p.Prepare(context.Background(), c.spec); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("error %q, want %q", err, c.want)
		}
	}
}

// A user declares which modules belong to the system: by default the libraries of the
// system do, and a program belongs to its user.
func TestSystemModules(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileC(t, "testdata/shapes.c", "-O1", "-pthread"))
	r.number(t)
	for list, want := range map[string]struct{ program, library string }{
		"": {originUser, originSystem}, "target": {originSystem, originSystem}, "-libc.so.6": {originUser, originUser}, " target , -libc.so.6": {originSystem, originUser},
	} {
		spec := &plan.Acquire{Settings: plan.Settings{SystemModules: list}}
		p, _ := process.Lookup(r.pid)
		s := &source{provider: provider, target: plan.Target{PIDs: []int{r.pid}}, found: []process.Process{p}, spec: spec}
		c, err := s.open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got := byName(snapshot(t, c))["read"]
		c.close()
		for i, f := range got.functions {
			if startCode[f] { // always the system's
				continue
			}
			if f == "in_read" && got.origins[i] != want.program || got.modules[i] == "libc.so.6" && got.origins[i] != want.library {
				t.Errorf("%q: %s of %s is the %s's", list, f, got.modules[i], got.origins[i])
			}
		}
		if len(got.functions) < 4 {
			t.Errorf("%q: %v", list, got.functions)
		}
	}
}

// A running process of which the kernel shows no thread is an error, not an idle
// process.
func TestHiddenProcess(t *testing.T) {
	own, runs := process.Lookup(os.Getpid())
	if !runs {
		t.Fatal("this process is not found")
	}
	reused := own
	reused.StartTime--
	for _, c := range []struct {
		pinned process.Process
		seen   map[int]bool
		tally  tally
		want   string
	}{
		{pinned: own, want: fmt.Sprintf("the kernel shows no thread of process %d (%s)", own.PID, own.Comm)},
		{pinned: own, seen: map[int]bool{own.PID: true}},
		{pinned: own, tally: tally{missed: 1}}, // counted
		{pinned: reused},                       // it has ended
	} {
		s := &source{spec: &plan.Acquire{Start: -1, Stop: -1}, pinned: []process.Process{c.pinned}}
		err := s.hidden(c.seen, c.tally)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c, err, c.want)
		}
	}
}
