package sched

import (
	"bufio"
	"endoscope/probes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/clock"
	"endoscope/probes/testenv"
)

// Other programs may begin and end while this one has no processor.
func init() { ringBytes = 16 << 20 }

// record is a sink that records rows as maps.
type record struct {
	fields []types.Field
	mu     sync.Mutex
	rows   []map[string]types.Value
	lost   []string
	counts map[string]uint64
	marks  []int64
	ended  chan error
}

func newRecord(spec *plan.Acquire) *record {
	return &record{fields: spec.Out.Fields, counts: map[string]uint64{}, ended: make(chan error, 1)}
}

func (r *record) Push(b *batch.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.N {
		row := map[string]types.Value{}
		for j, f := range r.fields {
			row[f.Name] = b.Cols[j].Value(i)
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
func (r *record) Lost(cause string, n uint64) { r.lost = append(r.lost, fmt.Sprint(n, " ", cause)) }
func (r *record) Count(cause string, n uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[cause] += n
}
func (r *record) End(err error) { r.ended <- err }

func (r *record) wait(t *testing.T) []map[string]types.Value {
	t.Helper()
	select {
	case err := <-r.ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("the stream does not end")
	}
	if len(r.lost) > 0 {
		t.Fatalf("lost: %v", r.lost)
	}
	return r.rows
}

func acquire(stream string, target plan.Target) *plan.Acquire {
	return &plan.Acquire{Stream: stream, Target: target, Out: types.Schema{Fields: tableOf(stream).Fields()}}
}

func observe(t *testing.T, p *Provider, spec *plan.Acquire) *record {
	t.Helper()
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecord(spec)
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = src.Stop() })
	return r
}

// A program that creates processes and threads, which end in every possible
// way, and prints what it did: lines of event, pid, tid and more.
const lives = `
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int tid(void) { return syscall(SYS_gettid); }
static void *thread(void *name)
{
	if (name)
		pthread_setname_np(pthread_self(), name);
	printf("thread %d %d %s\n", getpid(), tid(), name ? (char *)name : "lives");
	return 0;
}
static void *executes(void *self)
{
	execl(self, "other", "a b", "", "last", (char *)0);
	return 0;
}
static void *ends(void *p) { pthread_exit(0); }
static int made(int how, char *self)
{
	fflush(stdout);
	int pid = fork();
	if (pid == 0) {
		pthread_t t;
		switch (how) {
		case 0: exit(0);
		case 1: exit(77);
		case 2: raise(SIGTERM);
		case 3: abort();
		case 4: kill(getpid(), SIGRTMIN + 3);
		case 5: /* the first thread ends before the last */
			pthread_create(&t, 0, ends, 0);
			pthread_exit(0);
		case 6: execl(self, "other", "x", (char *)0);
		case 7: /* another than the first thread executes */
			pthread_create(&t, 0, executes, self);
			pause();
		case 8: /* two threads, one ends all */
			pthread_create(&t, 0, ends, 0);
			pthread_join(t, 0);
			_exit(5);
		}
		_exit(99);
	}
	int status;
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("child %d %d signal %d\n", pid, how, WTERMSIG(status));
	else
		printf("child %d %d code %d\n", pid, how, WEXITSTATUS(status));
	return pid;
}
int main(int argc, char **argv)
{
	char line[8];
	struct rlimit none = {0, 0};
	if (!strcmp(argv[0], "other"))
		return argc;
	setrlimit(RLIMIT_CORE, &none);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int i = 0; i < 50; i++) {
		pthread_t t;
		char name[16];
		snprintf(name, sizeof name, "worker%d", i);
		pthread_create(&t, 0, thread, name);
		pthread_join(t, 0);
	}
	for (int how = 0; how < 9; how++)
		made(how, argv[1]);
	fflush(stdout);
	return 42;
}`

// run starts the program; finish lets it go on and returns its output.
func run(t *testing.T) (pid int, exe string, finish func() [][]string) {
	t.Helper()
	return runText(t, lives)
}

func runText(t *testing.T, text string) (pid int, exe string, finish func() [][]string) {
	t.Helper()
	exe = testenv.CompileCText(t, text, "-pthread")
	cmd := exec.Command(exe, exe)
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
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatal("the program does not start")
	}
	return cmd.Process.Pid, exe, func() (said [][]string) {
		io.WriteString(in, "go\n")
		for lines.Scan() {
			said = append(said, strings.Fields(lines.Text()))
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 42 {
			t.Fatal(err)
		}
		return said
	}
}

// every runs f with both methods of finding the last thread of a process.
func every(t *testing.T, f func(*testing.T, *Provider)) {
	testenv.NeedUprobes(t)
	for _, guess := range []bool{false, true} {
		t.Run(map[bool]string{false: "told", true: "guessed"}[guess], func(t *testing.T) { f(t, &Provider{guessLast: guess}) })
	}
}

// TestEndHasTheStatusThatParentsSee: the status of each process is the one its
// parent received.
func TestEndHasTheStatusThatParentsSee(t *testing.T) {
	every(t, func(t *testing.T, p *Provider) {
		pid, exe, finish := run(t)
		ends := observe(t, p, acquire(ProcessEnd, plan.Target{PIDs: []int{pid}}))
		said := finish()
		rows := ends.wait(t) // ends without Stop: the process has ended
		got := map[string]int{}
		for _, r := range rows {
			line := fmt.Sprint(r["pid"].I, " code ", r["exit_code"].I)
			if r["exit_code"].IsNull {
				line = fmt.Sprint(r["pid"].I, " signal ", r["signal"].S)
			} else if !r["signal"].IsNull {
				t.Errorf("process %d has both a code and the signal %s", r["pid"].I, r["signal"].S)
			}
			got[line]++
			if r["exe"].S != exe && reportsLastThread() {
				t.Errorf("process %d executes %q, not %s", r["pid"].I, r["exe"].S, exe)
			}
			if r["duration"].I <= 0 || r["duration"].I > int64(time.Minute) {
				t.Errorf("process %d lived for %v", r["pid"].I, time.Duration(r["duration"].I))
			}
		}
		want := []string{fmt.Sprint(pid, " code 42")}
		for _, s := range said {
			if s[0] == "child" {
				what := strings.Join([]string{s[1], s[3], s[4]}, " ")
				for n, name := range map[string]string{"signal 15": "signal SIGTERM", "signal 6": "signal SIGABRT", "signal 37": "signal signal 37"} {
					what = strings.Replace(what, n, name, 1)
				}
				want = append(want, what)
			}
		}
		for _, w := range want {
			if got[w] != 1 {
				t.Errorf("%d ends %q", got[w], w)
			}
		}
		if len(rows) != len(want) || len(want) != 10 {
			t.Errorf("%d ends, %d processes: %v", len(rows), len(want), got)
		}
	})
}

// TestEachProcessStartsOnce: each process once, with its parent and its
// parent's arguments.
func TestEachProcessStartsOnce(t *testing.T) {
	testenv.NeedUprobes(t)
	pid, exe, finish := run(t)
	starts := observe(t, New(), acquire(ProcessStart, plan.Target{PIDs: []int{pid}}))
	said := finish()
	var want, got []int64
	for _, s := range said {
		if s[0] == "child" {
			n, _ := strconv.ParseInt(s[1], 10, 64)
			want = append(want, n)
		}
	}
	for _, r := range starts.wait(t) {
		got = append(got, r["pid"].I)
		if r["parent_pid"].I != int64(pid) || r["parent_tid"].I != int64(pid) || r["tid"] != r["pid"] || r["exe"].S != exe {
			t.Errorf("%v", r)
		}
		if argv := list(r["argv"]); !slices.Equal(argv, []string{exe, exe}) {
			t.Errorf("argv %q", argv)
		}
	}
	if !slices.Equal(got, want) || len(want) != 9 {
		t.Errorf("processes %v, want %v", got, want)
	}
}

func list(v types.Value) (out []string) {
	vs, _ := v.A.([]types.Value)
	for _, one := range vs {
		out = append(out, one.S)
	}
	return out
}

// TestExecutes: arguments are complete, also those with spaces and empty ones;
// also exec by a thread that is not the first.
func TestExecutes(t *testing.T) {
	testenv.NeedUprobes(t)
	pid, exe, finish := run(t)
	execs := observe(t, New(), acquire(ProcessExec, plan.Target{PIDs: []int{pid}}))
	children := map[string]string{}
	for _, s := range finish() {
		if s[0] == "child" {
			children[s[2]] = s[1]
		}
	}
	rows := execs.wait(t)
	want := map[string][]string{children["6"]: {"other", "x"}, children["7"]: {"other", "a b", "", "last"}}
	for _, r := range rows {
		argv := want[strconv.FormatInt(r["pid"].I, 10)]
		if got := list(r["argv"]); argv == nil || !slices.Equal(got, argv) {
			t.Errorf("process %d executes %q, want %q", r["pid"].I, got, argv)
		}
		if r["tid"] != r["pid"] || r["exe"].S != exe || r["parent_pid"].I != int64(pid) {
			t.Errorf("%v", r)
		}
	}
	if len(rows) != 2 {
		t.Errorf("%d programs were executed, want 2", len(rows))
	}
}

// TestThreads: each thread starts and ends once.
func TestThreads(t *testing.T) {
	testenv.NeedUprobes(t)
	pid, _, finish := run(t)
	target := plan.Target{PIDs: []int{pid}}
	starts := observe(t, New(), acquire(ThreadStart, target))
	ends := observe(t, New(), acquire(ThreadEnd, target))
	names := map[int64]string{}
	for _, s := range finish() {
		if s[0] == "thread" {
			tid, _ := strconv.ParseInt(s[2], 10, 64)
			names[tid] = s[3]
		}
	}
	if len(names) != 50 {
		t.Fatalf("%d threads", len(names))
	}
	began := map[int64]int64{}
	for _, r := range starts.wait(t) {
		if r["pid"].I != int64(pid) || r["parent_tid"].I != int64(pid) || names[r["tid"].I] == "" {
			t.Errorf("%v", r)
		}
		began[r["tid"].I] = r["timestamp"].I
	}
	last := 0
	for _, r := range ends.wait(t) {
		tid := r["tid"].I
		if tid == int64(pid) {
			last++
			continue
		}
		if r["thread_name"].S != names[tid] || r["process"].S != "target" || r["exit_code"].I != 0 {
			t.Errorf("thread %s ends as %v", names[tid], r)
		}
		if life := r["timestamp"].I - began[tid]; life <= 0 || r["duration"].I < life || r["duration"].I > life+int64(time.Minute) {
			t.Errorf("thread %d lived for %v, and for %v by its own clock", tid, time.Duration(life), time.Duration(r["duration"].I))
		}
		delete(began, tid)
	}
	if len(began) > 0 || last != 1 {
		t.Errorf("%d threads do not end, the first does %d times", len(began), last)
	}
}

// TestByExecutable: processes that exist at the start, that start later, and
// their descendants; no others.
func TestByExecutable(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	shell, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	exe := dir + "/shell"
	if err := os.WriteFile(exe, shell, 0o755); err != nil {
		t.Fatal(err)
	}
	src, err := New().Prepare(t.Context(), acquire(ProcessExec, plan.Target{Exes: []string{exe}}))
	if err != nil {
		t.Fatal(err)
	}
	spec := acquire(ProcessExec, plan.Target{Exes: []string{exe}})
	before := exec.Command(exe, "-c", "echo there; read x; /bin/echo descendant; exit 0")
	in, _ := before.StdinPipe()
	out, _ := before.StdoutPipe()
	if err := before.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil { // so that its exec is done
		t.Fatalf("it says %q: %v", line, err)
	}
	r := newRecord(spec)
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(in, "go\n")
	if err := before.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{"/bin/echo", "other"}, {exe, "-c", "(/bin/echo deeper; exit 0); exit 0"}} {
		if err := exec.Command(cmd[0], cmd[1:]...).Run(); err != nil {
			t.Fatal(err)
		}
	}
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range r.wait(t) {
		argv := list(row["argv"])
		got = append(got, argv[len(argv)-1])
	}
	if want := []string{"descendant", "(/bin/echo deeper; exit 0); exit 0", "deeper"}; !slices.Equal(got, want) {
		t.Errorf("executed: %q, want %q", got, want)
	}
}

// TestLongArguments: arguments longer than the kernel's buffer are cut, which
// is counted.
func TestLongArguments(t *testing.T) {
	testenv.NeedUprobes(t)
	spec := acquire(ProcessExec, plan.Target{})
	src, err := New().Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecord(spec)
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/true", strings.Repeat("x", 10000), strings.Repeat("y", 10000))
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, row := range r.wait(t) {
		if row["pid"].I != int64(cmd.Process.Pid) {
			continue
		}
		argv := list(row["argv"])
		if len(argv) != 3 || len(argv[1]) != 10000 || strings.Join(argv, "\x00") != (strings.Join(cmd.Args, "\x00"))[:16384] {
			t.Errorf("%d arguments", len(argv))
		}
		if r.counts[cutArgs] < 1 {
			t.Error("the cut is not counted")
		}
		return
	}
	t.Error("the program was not seen")
}

// TestWatermarksAdvanceWhenIdle: watermarks advance without events.
func TestWatermarksAdvanceWhenIdle(t *testing.T) {
	testenv.NeedUprobes(t)
	before := clock.Now()
	src, err := New().Prepare(t.Context(), acquire(ThreadEnd, plan.Target{PIDs: []int{os.Getppid()}}))
	if err != nil {
		t.Fatal(err)
	}
	r := newRecord(acquire(ThreadEnd, plan.Target{}))
	if err := src.Start(t.Context(), r, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "there are watermarks", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.marks) > 1
	})
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if r.wait(t); len(r.marks) < 2 || r.marks[len(r.marks)-1] < before || !slices.IsSorted(r.marks) {
		t.Errorf("watermarks %v", r.marks)
	}
}

// TestOfOthers: a user who may not observe every process gets none of these
// streams, rather than a part.
func TestOfOthers(t *testing.T) {
	for stream := range tables {
		spec := acquire(stream, plan.Target{Viewer: &plan.Viewer{Local: true, UID: 1000}})
		if src, err := New().Prepare(t.Context(), spec); err == nil || !strings.Contains(err.Error(), stream) {
			t.Errorf("%s: %v, %v", stream, src, err)
		}
	}
}

// A process whose last thread is an io_uring poller, as far as the kernel lets
// it end so: it ends once, with the status of its first thread.
const polled = `
#define _GNU_SOURCE
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
	char line[8];
	int made = 0;
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof one, &one); /* who polls ends when it is its turn */
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int i = 0; i < 20; i++) {
		int pid = fork(), status;
		if (pid == 0) {
			struct io_uring_params p;
			memset(&p, 0, sizeof p);
			p.flags = IORING_SETUP_SQPOLL;
			p.sq_thread_idle = 1000;
			_exit(syscall(SYS_io_uring_setup, 4, &p) < 0 ? 1 : 7);
		}
		waitpid(pid, &status, 0);
		made += WEXITSTATUS(status) == 7;
	}
	printf("polled %d\n", made);
	fflush(stdout);
	return 42;
}`

// TestEndsWithWorkers: kernel threads in a process do not hide its end.
func TestEndsWithWorkers(t *testing.T) {
	every(t, func(t *testing.T, p *Provider) {
		pid, _, finish := runText(t, polled)
		ends := observe(t, p, acquire(ProcessEnd, plan.Target{PIDs: []int{pid}}))
		said := finish()
		if said[0][1] != "20" {
			testenv.Skip(t, "io_uring is refused here: %s of 20 were made", said[0][1])
		}
		sevens := 0
		for _, r := range ends.wait(t) {
			if r["exit_code"].I == 7 && r["tid"] == r["pid"] {
				sevens++
			}
		}
		if sevens != 20 {
			t.Errorf("%d ends of 20 processes", sevens)
		}
	})
}
