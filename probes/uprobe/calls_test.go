package uprobe

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// prelude is the beginning of every target. Functions to be monitored are noinline and
// have an effect, so that their calls are not optimised away.
const prelude = `
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <setjmp.h>
#include <pthread.h>
#include <sys/wait.h>
#include <time.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
static void ready(void) { char b[16]; puts("ready"); fflush(stdout); if (!fgets(b, sizeof b, stdin)) exit(9); }
`

func TestRecursion(t *testing.T) {
	testenv.NeedUprobes(t)
	const calls = 2*89 - 1 // fib(10) calls itself so often
	target := testenv.CompileCText(t, prelude+`
NOINLINE long fib(long n) { return n < 2 ? n : fib(n-1) + fib(n-2); }
int main(void) { ready(); printf("%ld\n", fib(10)); }
`, "-O1")
	t.Run("function_start", func(t *testing.T) {
		p := provider(t, Options{})
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("fib"), "timestamp", "function_name", "arg0"))
		r.finish(success)
		got.wait(t)
		if n := len(got.rows); n != calls {
			t.Errorf("%d rows, want %d", n, calls)
		}
		if a := got.ints("arg0"); a[0] != 10 || a[1] != 9 || a[2] != 8 {
			t.Errorf("first arguments %v, want 10 9 8", a[:3])
		}
	})
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("fib"), "timestamp", "start_time", "duration", "depth", "arg0", "retval"))
		r.finish(success)
		got.wait(t)
		if n := len(got.rows); n != calls {
			t.Fatalf("%d rows, want %d", n, calls)
		}
		// The argument determines the result and bounds the depth: fib(10) is at depth 0
		// and a call at depth d has an argument of at most 10-d.
		fib := []int64{0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55}
		start, end, duration := got.ints("start_time"), got.ints("timestamp"), got.ints("duration")
		arg, ret, depth := got.ints("arg0"), got.ints("retval"), got.ints("depth")
		for i := range got.rows {
			if ret[i] != fib[arg[i]] {
				t.Errorf("fib(%d) returned %d", arg[i], ret[i])
			}
			if depth[i] > 10-arg[i] || depth[i] == 0 != (arg[i] == 10) {
				t.Errorf("fib(%d) at depth %d", arg[i], depth[i])
			}
			if end[i]-start[i] != duration[i] || duration[i] <= 0 {
				t.Errorf("row %d: from %d to %d took %d", i, start[i], end[i], duration[i])
			}
		}
		if len(got.counts) > 0 || len(got.lost) > 0 || got.late > 0 {
			t.Errorf("counts %v, lost %v, late %d", got.counts, got.lost, got.late)
		}
	})
}

// Calls nest deeper than the kernel traps returns: the excess is counted.
func TestNestingBeyondTheKernelsLimit(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long down(long n) { sink++; return n == 0 ? 0 : 1 + down(n-1); }
int main(void) { ready(); for (int i = 0; i < 3; i++) down(99); }
`, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("down"), "depth"))
		r.finish(success)
		got.wait(t)
		most := 64
		if o.Returns == plan.ExitReturns {
			most = 100
		}
		if n, skipped := len(got.rows), int(got.counts["nesting"]); n != 3*most || skipped != 3*(100-most) {
			t.Errorf("%d rows and %d skipped, want %d and %d", n, skipped, 3*most, 3*(100-most))
		}
		if d := int(slices.Max(got.ints("depth"))); d != most-1 {
			t.Errorf("deepest %d, want %d", d, most-1)
		}
	})
}

func TestThreads(t *testing.T) {
	testenv.NeedUprobes(t)
	const threads, each = 8, 500
	target := testenv.CompileCText(t, prelude+fmt.Sprintf(`
NOINLINE long inner(long n) { sink += n; return n; }
NOINLINE long outer(long n) { return inner(n) + 1; }
static void *work(void *p) { pthread_setname_np(pthread_self(), p); for (int i = 0; i < %d; i++) outer(i); return 0; }
int main(void) {
	ready();
	pthread_t t[%d]; char name[%[2]d][16];
	for (int i = 0; i < %[2]d; i++) { sprintf(name[i], "worker-%%d", i); pthread_create(&t[i], 0, work, name[i]); }
	for (int i = 0; i < %[2]d; i++) pthread_join(t[i], 0);
}
`, each, threads), "-O1", "-pthread")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("inner", "outer"),
			"timestamp", "tid", "pid", "process", "thread_name", "exe", "function_name", "module", "depth", "arg0", "retval"))
		r.finish(success)
		got.wait(t)
		want := map[string]int{}
		for i := range threads {
			want["worker-"+strconv.Itoa(i)] = 2 * each
		}
		if diff := cmp.Diff(want, tally(got.strings("thread_name"))); diff != "" {
			t.Error(diff)
		}
		if n := len(tally(got.ints("tid"))); n != threads {
			t.Errorf("%d thread ids, want %d", n, threads)
		}
		if diff := cmp.Diff(map[string]int{"target": 2 * threads * each}, tally(got.strings("process"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]int{target: 2 * threads * each}, tally(got.strings("exe"))); diff != "" {
			t.Error(diff)
		}
		names, depths, args, rets := got.strings("function_name"), got.ints("depth"), got.ints("arg0"), got.ints("retval")
		for i := range got.rows {
			if d := map[string]int64{"outer": 0, "inner": 1}[names[i]]; depths[i] != d || rets[i] != args[i]+1-d {
				t.Fatalf("%s(%d) = %d at depth %d", names[i], args[i], rets[i], depths[i])
			}
		}
		if got.counts["foreign stack"]+got.counts["stack not known"] > 0 {
			t.Errorf("calls on threads' own stacks were skipped: %v", got.counts)
		}
	})
}

// A tail call enters at the stack pointer of the call it replaces; both return
// at the same instant, the inner one first. Where exits are probed, the outer
// one ends with the jump.
func TestTailCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long third(long n) { sink += n; return n; }
NOINLINE long second(long n) { sink++; return third(n + 1); }
NOINLINE long first(long n) { sink++; return second(n + 1); }
int main(void) { ready(); for (int i = 0; i < 100; i++) sink += first(i) + third(7); }
`, "-O2")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("first", "second", "third"), "function_name", "depth", "arg0", "retval"))
		r.finish(success)
		got.wait(t)
		type kind struct {
			name  string
			depth int64
		}
		calls := map[kind]int{}
		for i, name := range got.strings("function_name") {
			calls[kind{name, got.ints("depth")[i]}]++
		}
		want := map[kind]int{{"first", 0}: 100, {"second", 1}: 100, {"third", 2}: 100, {"third", 0}: 100}
		if o.Returns == plan.ExitReturns {
			want = map[kind]int{{"first", 0}: 100, {"second", 0}: 100, {"third", 0}: 200}
		}
		if diff := cmp.Diff(want, calls); diff != "" {
			t.Error(diff)
		}
		if len(got.counts) > 0 {
			t.Errorf("counts %v", got.counts)
		}
	})
}

// longjmp leaves calls that never return. They are counted, and later calls and depths
// are not affected by them.
func TestLongjmpOverMonitoredCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
static jmp_buf env;
NOINLINE long leap(long n) { sink++; if (n == 0) longjmp(env, 1); return leap(n-1) + 1; }
NOINLINE long plain(long n) { sink += n; return n; }
NOINLINE void round_(void) { if (!setjmp(env)) leap(4); plain(1); }
int main(void) { ready(); for (int i = 0; i < 50; i++) { round_(); plain(2); } }
`, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leap", "plain"), "function_name", "depth"))
		r.finish(success)
		got.wait(t)
		if diff := cmp.Diff(map[string]int{"plain": 100}, tally(got.strings("function_name"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[int64]int{0: 100}, tally(got.ints("depth"))); diff != "" {
			t.Error("depth of plain:", diff)
		}
		if diff := cmp.Diff(map[string]uint64{"unfinished": 5 * 50}, got.counts); diff != "" {
			t.Error(diff)
		}
	})
}

// A fork during a call: the child inherits the call and returns from it, but the call
// began once and is one row.
func TestForkInMidCall(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE pid_t split(void) { sink++; pid_t p = fork(); sink++; return p; }
int main(void) {
	ready();
	pid_t p = split();
	leaf(1);
	if (p == 0) _exit(3);
	int st; waitpid(p, &st, 0);
	leaf(2);
	return WEXITSTATUS(st) == 3 ? 0 : 8;
}
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		t.Run("by pid", func(t *testing.T) {
			p := provider(t, o)
			r := run(t, target)
			_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "split"), "pid", "function_name"))
			r.finish(success)
			got.wait(t)
			if diff := cmp.Diff(map[string]int{"split": 1, "leaf": 2}, tally(got.strings("function_name"))); diff != "" {
				t.Error(diff)
			}
		})
		t.Run("by executable", func(t *testing.T) {
			p := provider(t, o)
			r := run(t, target)
			src, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Named("leaf", "split"), "pid", "function_name"))
			r.finish(success)
			src.Stop()
			got.wait(t)
			if diff := cmp.Diff(map[string]int{"split": 1, "leaf": 3}, tally(got.strings("function_name"))); diff != "" {
				t.Error(diff)
			}
			if o.Links == "session" && got.counts["inherited"] != 1 {
				t.Errorf("counts %v, want 1 inherited", got.counts)
			}
			if got.counts["unfinished"] != 0 {
				t.Errorf("counts %v, want nothing unfinished", got.counts)
			}
		})
	})
}

// exec and exit during a call leave it unfinished, and no call of the old program is
// paired with the new one.
func TestExecAndExitInMidCall(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long again(char **argv) { sink++; char *a[] = {argv[0], "second", 0}; execv("/proc/self/exe", a); return 1; }
NOINLINE long leave(void) { sink++; exit(0); return 1; }
NOINLINE void die(void) { sink++; leave(); }
int main(int argc, char **argv) {
	if (argc < 2) { ready(); leaf(1); again(argv); }
	leaf(2); leaf(3);
	die();
}
`, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "again", "die", "leave"), "function_name", "depth"))
		r.finish(success)
		got.wait(t)
		if diff := cmp.Diff(map[string]int{"leaf": 3}, tally(got.strings("function_name"))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[int64]int{0: 3}, tally(got.ints("depth"))); diff != "" {
			t.Error("depth:", diff)
		}
		if diff := cmp.Diff(map[string]uint64{"unfinished": 3}, got.counts); diff != "" {
			t.Error(diff)
		}
	})
}

// The durations agree with those that the program measures around its calls.
func TestDurationsAreTheProgramsOwn(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
static long now(void) { struct timespec t; clock_gettime(CLOCK_BOOTTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
NOINLINE void nap(long us) { usleep(us); sink++; }
int main(void) { ready(); for (long us = 1000; us <= 20000; us += 1000) { long t = now(); nap(us); printf("%ld\n", now() - t); } }
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("nap"), "duration", "arg0"))
		lines := r.finish(success)
		got.wait(t)
		if len(got.rows) != len(lines) {
			t.Fatalf("%d rows, want %d", len(got.rows), len(lines))
		}
		var beyond []int64 // the program's measurement less ours
		for i, d := range got.ints("duration") {
			own, _ := strconv.ParseInt(lines[i], 10, 64)
			if asked := got.ints("arg0")[i] * 1000; d < asked || d > own {
				t.Errorf("call of %d us: duration %d, the program measured %d", asked/1000, d, own)
			}
			beyond = append(beyond, own-d)
		}
		// The difference contains the time to enter and leave the traps, and
		// occasionally that of another program scheduled at that point.
		if least := slices.Min(beyond); least > 2_000_000 {
			t.Errorf("the program measured %d more at least", least)
		}
	})
}

func TestFunctionEnd(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long square(long n) { sink++; return n * n; }
int main(void) { ready(); for (int i = 0; i < 10; i++) square(i - 5); }
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionEnd, r.target(), testplan.Named("square"), "retval", "depth"))
		r.finish(success)
		got.wait(t)
		if diff := cmp.Diff([]int64{25, 16, 9, 4, 1, 0, 1, 4, 9, 16}, got.ints("retval")); diff != "" {
			t.Error(diff)
		}
	})
}

// depth needs returns even for a stream of entries.
func TestDepthOfEntries(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long c(long n) { sink++; return n; }
NOINLINE long b(long n) { sink++; return c(n) + c(n); }
NOINLINE long a(long n) { sink++; return b(n) + c(n); }
int main(void) { ready(); a(1); a(2); }
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		// b is not monitored and does not count.
		_, all := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("a", "b", "c"), "timestamp", "function_name", "depth"))
		_, two := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("a", "c"), "timestamp", "function_name", "depth"))
		r.finish(success)
		show := func(r *record) (out []string) {
			for i, name := range r.wait(t).strings("function_name") {
				out = append(out, name+strconv.FormatInt(r.ints("depth")[i], 10))
			}
			return out
		}
		if diff := cmp.Diff([]string{"a0", "b1", "c2", "c2", "c1", "a0", "b1", "c2", "c2", "c1"}, show(all)); diff != "" {
			t.Error("all:", diff)
		}
		if diff := cmp.Diff([]string{"a0", "c1", "c1", "c1", "a0", "c1", "c1", "c1"}, show(two)); diff != "" {
			t.Error("without b:", diff)
		}
	})
}
