package uprobe

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

// reborn executes itself, on its leader, on another thread or in a child, and prints how
// often each of its programs has called work. In the second program one thread begins
// before it can be probed, and another later.
const reborn = marks + `
extern char **environ;
static char **args;
static long calls;
NOINLINE long work(long n) { MARK("work", "0", "-8@%0", "nor"(n)); calls++; return sink += n; }
NOINLINE void guarded(void) { if (app_guarded_semaphore) MARK("guarded", "app_guarded_semaphore", "-8@%0", "nor"(calls)); }
static void *begins(void *unused) {
	for (int i = 0; i < 5; i++) work(i);
	guarded();
	printf("%ld\n", calls);
	fflush(stdout);
	char *next = args[2] ? args[2] : args[0], *again[] = {next, "second", 0};
	execve(next, again, environ);
	_exit(3);
}
static pthread_barrier_t goes_on;
static void *early(void *name) {
	pthread_setname_np(pthread_self(), name);
	pthread_barrier_wait(&goes_on);
	for (int i = 0; i < 40; i++) work(i);
	return 0;
}
static void *late(void *name) {
	pthread_setname_np(pthread_self(), name);
	for (int i = 0; i < 30; i++) work(i);
	return 0;
}
int main(int argc, char **argv) {
	pthread_t t, u;
	args = argv;
	if (strcmp(argv[1], "second")) {
		ready();
		if (!strcmp(argv[1], "leader")) begins(0);
		if (!strcmp(argv[1], "vfork") && !vfork()) { execl(argv[0], argv[0], "second", (char *)0); _exit(3); }
		if (!strcmp(argv[1], "vfork")) { int status; work(1); wait(&status); printf("%ld\n", calls); return status; }
		pthread_create(&t, 0, begins, 0);
		pthread_join(t, 0);
		return 2;
	}
	pthread_setname_np(pthread_self(), "second");
	pthread_barrier_init(&goes_on, 0, 2);
	pthread_create(&t, 0, early, "early");
	ready();
	for (int i = 0; i < 100; i++) work(i);
	guarded();
	pthread_barrier_wait(&goes_on);
	pthread_join(t, 0);
	pthread_create(&u, 0, late, "late");
	pthread_join(u, 0);
	printf("%ld\n", calls);
}
`

// missedExecutions waits until the gaps of n executions have been reported.
func (r *record) missedExecutions(t *testing.T, n int) {
	t.Helper()
	testenv.Until(t, fmt.Sprintf("%d gaps are counted", n), func() bool {
		r.mu.Lock()
		told := 0
		for cause, n := range r.lost {
			if strings.Contains(cause, "a thread other than its leader executed a program until that was probed, a gap of") {
				told += int(n)
			} else {
				t.Errorf("lost %d: %s", n, cause)
			}
		}
		r.mu.Unlock()
		if told > n || t.Failed() {
			t.Fatalf("%d gaps are counted, not %d", told, n)
		}
		return told == n
	})
}

// callsSaid adds up the counts that a target printed, including that of its first
// program.
func callsSaid(t *testing.T, lines ...string) (sum int) {
	t.Helper()
	for _, line := range lines {
		n, err := strconv.Atoi(line)
		if err != nil {
			t.Fatalf("the target said %q", lines)
		}
		sum += n
	}
	return sum
}

// watchings observe the calls of work in all ways; reattached means that their links are
// restricted to one process and have to be replaced.
var watchings = []struct {
	name       string
	reattached bool
	spec       func(plan.Target) *plan.Acquire
}{
	{"entries", true, func(t plan.Target) *plan.Acquire {
		return testplan.Acquire(catalog.FunctionStart, t, testplan.Named("work"), "timestamp", "arg0")
	}},
	{"aggregated", true, func(t plan.Target) *plan.Acquire {
		return aggregate(testplan.Acquire(catalog.FunctionStart, t, testplan.Named("work"), "timestamp"), 0, nil, agg("count"))
	}},
	{"traps", false, func(t plan.Target) *plan.Acquire {
		return testplan.Acquire(catalog.FunctionDuration, t, testplan.Named("work"), "timestamp", "retval")
	}},
	{"exits", true, func(t plan.Target) *plan.Acquire {
		return byExits(catalog.FunctionDuration, t, testplan.Named("work"), "timestamp", "retval")
	}},
	{"depth", true, func(t plan.Target) *plan.Acquire {
		return byExits(catalog.FunctionDuration, t, testplan.Named("work"), "timestamp", "depth")
	}},
	{"marked place", true, func(t plan.Target) *plan.Acquire {
		return testplan.Acquire(catalog.FunctionStart, t, testplan.Named("usdt:app:work"), "timestamp", "arg0")
	}},
}

// A process selected by pid is followed when any of its threads calls exec, here of its
// own program: calls of the second program before it is probed are a gap, which is
// reported, and all others are counted.
func TestExecutedByAnyThread(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread")
	for _, w := range watchings {
		for _, way := range []string{"leader", "thread"} {
			t.Run(w.name+" "+way, func(t *testing.T) {
				p := provider(t, Options{})
				r := run(t, target, way)
				_, got := start(t, p, w.spec(r.target()))
				r.step()
				first := callsSaid(t, r.line())
				r.awaitReady()
				gaps := 0
				if w.reattached && way == "thread" && attach.Session.ScopesProcess() {
					gaps = 1
				}
				got.missedExecutions(t, gaps)
				second := callsSaid(t, r.finish(success)...)
				got.wait(t)
				n := len(got.rows)
				for _, part := range got.parts {
					n += int(part[len(part)-1].I)
				}
				if n != first+second {
					t.Errorf("%d calls, and the programs made %d and %d", n, first, second)
				}
				got.missedExecutions(t, gaps)
			})
		}
	}
}

// The semaphore of a marked place is raised in the new program.
func TestSemaphoreOfExecutedProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread")
	p := provider(t, Options{})
	r := run(t, target, "thread")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("usdt:app:guarded"), "timestamp"))
	r.step()
	callsSaid(t, r.line())
	r.line()
	got.missedExecutions(t, 1)
	r.finish(success)
	if got.wait(t); len(got.rows) != 2 {
		t.Errorf("%d rows, want one of each program", len(got.rows))
	}
}

// Sequences of threads that began before their program was probed start with a gap;
// those of later threads and of other processes do not.
func TestGapOfExecutedProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread")
	p := provider(t, Options{})
	r, other := run(t, target, "thread"), run(t, target, "second")
	both := plan.Target{PIDs: []int{r.cmd.Process.Pid, other.cmd.Process.Pid}}
	_, got := start(t, p, byExits(catalog.FunctionCall, both, testplan.Named("work"), "timestamp", "pid", "event", "thread_name"))
	r.step()
	callsSaid(t, r.line())
	r.line()
	got.missedExecutions(t, 1)
	r.finish(success)
	other.finish(success)
	got.wait(t)
	type key struct {
		pid    int64
		thread string
	}
	sequences := map[key]map[string]int{}
	var led []key // threads that begin with a gap
	pids, events, threads := got.ints("pid"), got.strings("event"), got.strings("thread_name")
	for i, event := range events {
		k := key{pids[i], threads[i]}
		if sequences[k] == nil {
			sequences[k] = map[string]int{}
			if event == decode.EventGap {
				led = append(led, k)
			}
		}
		sequences[k][event]++
	}
	pid, own := int64(r.cmd.Process.Pid), int64(other.cmd.Process.Pid)
	calls := func(n, gaps int) map[string]int {
		m := map[string]int{decode.EventEnter: n, decode.EventLeave: n}
		if gaps > 0 {
			m[decode.EventGap] = gaps
		}
		return m
	}
	want := map[key]map[string]int{
		{pid, "target"}: calls(5, 0), // of the first program
		{pid, "second"}: calls(100, 1), {pid, "early"}: calls(40, 1), {pid, "late"}: calls(30, 0),
		{own, "second"}: calls(100, 0), {own, "early"}: calls(40, 0), {own, "late"}: calls(30, 0),
	}
	if diff := cmp.Diff(want, sequences); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(led) != 2 || !slices.Contains(led, key{pid, "second"}) || !slices.Contains(led, key{pid, "early"}) {
		t.Errorf("a gap is in front of the sequences of %v", led)
	}
}

// A child that executes the same program is not part of the target, and its calls are
// not lost.
func TestChildThatExecutesIsNoTarget(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread")
	p := provider(t, Options{})
	r := run(t, target, "vfork")
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "timestamp"))
	r.step()
	r.line()
	lines := r.finish(success)
	if got.wait(t); len(got.rows) != 1 || len(got.lost) > 0 {
		t.Errorf("%d rows of one call of the parent, lost %v; the target said %q", len(got.rows), got.lost, lines)
	}
}

// A process with its own pid and mount namespaces, as in a container, is identified by
// its pid in ours.
func TestExecutedInContainer(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread", "-static")
	p := provider(t, Options{})
	cmd := exec.Command(target, "thread")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	r := runCommand(t, cmd)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "timestamp"))
	r.step()
	first := callsSaid(t, r.line())
	r.line()
	got.missedExecutions(t, 1)
	second := callsSaid(t, r.finish(success)...)
	if got.wait(t); len(got.rows) != first+second {
		t.Errorf("%d calls, and the programs made %d and %d", len(got.rows), first, second)
	}
}

// A program other than the selected one is not probed, which is reported.
func TestOtherProgramExecutedByThread(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread")
	other := copyAs(t, target, "other")
	p := provider(t, Options{})
	r := run(t, target, "thread", other)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "timestamp"))
	r.step()
	first := callsSaid(t, r.line())
	r.line()
	testenv.Until(t, "what is not probed is counted", got.hasLost)
	r.finish(success)
	got.wait(t)
	if len(got.rows) != first {
		t.Errorf("%d calls, and the program asked for made %d", len(got.rows), first)
	}
	if lost := fmt.Sprint(got.lost); len(got.lost) != 1 || !strings.Contains(lost, "ask for exe = '"+other+"' there") {
		t.Errorf("lost %s", lost)
	}
}

// hasLost reports whether there has been a loss.
func (r *record) hasLost() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.lost) > 0
}

// An exec just before a query ends is reported, even if the new program is not probed
// any more.
func TestQueryThatEndsBeforeItsLinksAreAnew(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, reborn, "-O1", "-pthread")
	p := provider(t, Options{})
	r := run(t, target, "thread")
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "timestamp"))
	s := src.(*source)
	s.flip.Lock() // blocks the replacement of links meanwhile
	r.step()
	callsSaid(t, r.line())
	r.line()
	ended := make(chan struct{})
	go func() { src.Stop(); close(ended) }()
	testenv.Until(t, "the source's end has begun", func() bool { return p.stopped(s) })
	s.flip.Unlock()
	<-ended
	if lost := fmt.Sprint(got.lost); len(got.lost) != 1 || !strings.Contains(lost, "executed a program until the end") {
		t.Errorf("lost %s", lost)
	}
	r.finish(success)
}

// stopped reports whether the source's end has begun.
func (p *Provider) stopped(s *source) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return s.stopped
}
