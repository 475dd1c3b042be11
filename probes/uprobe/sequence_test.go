package uprobe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

// Columns of the acquisitions of function_call in these tests.
var sequenceColumns = []string{"timestamp", "thread_name", "event", "function_name", "depth"}

// sequences returns the events of each thread as text, "ENTER f 0", in the order
// received. Threads are identified by name. It checks that times do not decrease.
func (r *record) sequences(t testing.TB) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	last := map[string]int64{}
	column := func(name string) int { return slices.Index(r.names, name) }
	time, thread, event, function, depth := column("timestamp"), column("thread_name"), column("event"), column("function_name"), column("depth")
	for _, row := range r.rows {
		key := row[thread].S
		if row[time].I < last[key] {
			t.Fatalf("thread %s: %v happened before the event in front of it", key, row)
		}
		last[key] = row[time].I
		if isGap := row[event].S == decode.EventGap; isGap != row[function].IsNull {
			t.Fatalf("thread %s: event %s of function %s", key, row[event].S, plan.FormatValue(row[function]))
		}
		line := row[event].S + " " + row[function].S
		if depth >= 0 {
			line += " " + strconv.FormatInt(row[depth].I, 10)
		}
		out[key] = append(out[key], line)
	}
	return out
}

// len returns the number of rows so far.
func (r *record) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rows)
}

// multiModes is returnModes for tests of many functions, without perf events:
// each of those takes the kernel tens of milliseconds to detach.
func multiModes(t *testing.T, f func(t *testing.T, o Options)) {
	returnModes(t, func(t *testing.T, o Options) {
		if o.Links != attach.Perf.String() {
			f(t, o)
		}
	})
}

// sameSequences compares the received sequences with those the program printed.
func sameSequences(t testing.TB, want, got map[string][]string) {
	t.Helper()
	for thread, w := range want {
		g := got[thread]
		for i := range max(len(w), len(g)) {
			if i < len(w) && i < len(g) && w[i] == g[i] {
				continue
			}
			t.Errorf("thread %s, event %d of %d: after %q\ngot  %q\nwant %q", thread, i, len(w), w[max(0, i-3):min(i, len(w))],
				g[min(i, len(g)):min(i+3, len(g))], w[min(i, len(w)):min(i+3, len(w))])
			break
		}
	}
	for thread := range got {
		if want[thread] == nil {
			t.Errorf("thread %s made no calls, but there are %q", thread, got[thread][:1])
		}
	}
}

// witness makes a program record its own calls: enter_ and leave_ around the body of
// each function, by the compiler's instrumentation. A thread prints its sequence when it
// calls tell, as "thread ENTER f depth" lines, and records where calls were abandoned.
const witness = prelude + `
#include <sys/syscall.h>
#define PLAIN __attribute__((no_instrument_function))
#ifdef WITNESS
struct note { void *f; int depth; char what; };
static __thread struct note notes[1 << 16];
static __thread int n, depth;
PLAIN const char *name_of(void *f);
PLAIN void __cyg_profile_func_enter(void *f, void *at) { if (name_of(f)) notes[n++] = (struct note){ f, depth++, 'E' }; }
PLAIN void __cyg_profile_func_exit(void *f, void *at) { if (name_of(f)) notes[n++] = (struct note){ f, --depth, 'L' }; }
/* The calls at depth to and deeper were left without returning. */
static __thread void *frames[1 << 10];
PLAIN static void abandoned(int to) {
	int top = 0;
	for (int i = 0; i < n; i++) { if (notes[i].what == 'E') frames[top++] = notes[i].f; else top--; }
	while (depth > to) notes[n++] = (struct note){ frames[--top], --depth, 'U' };
}
PLAIN static int depth_now(void) { return depth; }
PLAIN static void tell(const char *thread) {
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	pthread_mutex_lock(&one);
	for (int i = 0; i < n; i++)
		printf("%s %s %s %d\n", thread, notes[i].what == 'E' ? "ENTER" : notes[i].what == 'L' ? "LEAVE" : "UNWIND", name_of(notes[i].f), notes[i].depth);
	fflush(stdout);
	pthread_mutex_unlock(&one);
}
#else
static void abandoned(int to) {}
static int depth_now(void) { return 0; }
static void tell(const char *thread) {}
#endif
`

// twin compiles a program twice: as it is observed, and with instrumentation that prints
// its own sequences. names are its functions.
func twin(t *testing.T, body string, names []string, flags ...string) (observed string, told map[string][]string) {
	t.Helper()
	list := ""
	for _, n := range names {
		list += fmt.Sprintf("if (f == (void *)%s) return %q; ", n, n)
	}
	text := witness + body + "\n#ifdef WITNESS\nPLAIN const char *name_of(void *f) { " + list + "return 0; }\n#endif\n"
	flags = append([]string{"-pthread"}, flags...)
	r := run(t, testenv.CompileCText(t, text, append([]string{"-DWITNESS", "-finstrument-functions"}, flags...)...))
	told = map[string][]string{}
	for _, line := range r.finish(success) {
		thread, event, _ := strings.Cut(line, " ")
		told[thread] = append(told[thread], event)
	}
	return testenv.CompileCText(t, text, flags...), told
}

// windings is a program of threads whose calls recurse, end in tail calls, are abandoned
// by longjmp, and are interrupted by signals: each thread in a different order.
const windings = `
#include <signal.h>
static __thread jmp_buf env;
static __thread sigjmp_buf handler;
static __thread int leaps;
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long fib(long n) { if (n < 2) return leaf(n); long r = fib(n-1); r += fib(n-2); sink = r; return r; }
NOINLINE long third(long n) { sink += n; return n; }
NOINLINE long second(long n) { sink++; return third(n + 1); }
NOINLINE long first(long n) { sink++; return second(n + 1); }
NOINLINE long even(long n); 
NOINLINE long odd(long n) { sink++; return n == 0 ? 0 : even(n - 1); }
NOINLINE long even(long n) { sink++; return n == 0 ? 1 : odd(n - 1); }
NOINLINE long leap(long n) { long r; if (n == 0) longjmp(env, 1); r = leap(n-1) + 1; sink = r; return r; }
/* What is not observed has larger frames than what is: calls that it makes lie
 * further in than what was left. */
NOINLINE long far(long n) { volatile char room[700]; room[n] = 1; long r = leaf(n) + room[n]; sink = r; return r; }
NOINLINE long catch_(long n) { volatile int d = depth_now(); if (!setjmp(env)) leap(n); else { abandoned(d); far(n); } long r = n & 1 ? leaf(n) : 0; sink = r; return r; }
NOINLINE long struck(long n) { long r = leaf(n); if (leaps) siglongjmp(handler, 1); sink = r; return r; }
static void on(int s) { struck(s); }
NOINLINE long strike(long n) { volatile int d = depth_now(); leaps = n & 1; if (!sigsetjmp(handler, 1)) raise(SIGUSR1); else { abandoned(d); far(n); } long r = leaf(n); sink = r; return r; }
NOINLINE long deep(long n) { long r = n ? deep(n - 1) : leaf(n); sink = r; return r; }
static void *work(void *name) {
	pthread_setname_np(pthread_self(), name);
	unsigned seed = ((char *)name)[1];
	for (int i = 0; i < 150; i++) {
		long n = rand_r(&seed) % 7;
		switch (rand_r(&seed) % 7) {
		case 0: fib(n); break;
		case 1: first(n); break;
		case 2: odd(n); break;
		case 3: catch_(n); break;
		case 4: strike(n); break;
		case 5: deep(8 * n); break;
		case 6: if (!setjmp(env)) leap(n); else abandoned(0); break;
		}
	}
	leaf(0);
	tell(name);
	return 0;
}
int main(void) {
	signal(SIGUSR1, on);
	ready();
	pthread_t t[4]; const char *names[] = { "w0", "w1", "w2", "w3" };
	for (int i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)names[i]);
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
	work("w4");
}
`

var windingFunctions = []string{"leaf", "fib", "first", "second", "third", "odd", "even", "leap", "catch_", "struck", "strike", "deep"}

// The sequence of each thread agrees with the one that the program itself records.
func TestSequencesAreTheProgramsOwn(t *testing.T) {
	testenv.NeedUprobes(t)
	target, told := twin(t, windings, windingFunctions, "-O2", "-fno-ipa-ra")
	// At an exit by a tail call the call ends; the program's own instrumentation
	// prevents tail calls.
	calling, _ := twin(t, windings, windingFunctions, "-O2", "-fno-ipa-ra", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		target := target
		if o.Returns == plan.ExitReturns {
			target = calling
		}
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(windingFunctions...), sequenceColumns...))
		both := []*record{got}
		if o.Links != attach.Perf.String() { // slow to detach
			_, again := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(windingFunctions...), sequenceColumns...))
			both = append(both, again)
		}
		r.finish(success)
		for _, got := range both {
			sameSequences(t, told, got.wait(t).sequences(t))
		}
		if len(got.lost)+len(got.counts) > 0 || got.late > 0 {
			t.Errorf("lost %v, counts %v, %d late", got.lost, got.counts, got.late)
		}
	})
}

// Calls under way when the probes are attached are not part of the sequence: they have
// no LEAVE without an ENTER, and do not count for the depth of others. Those under way
// when the probes are detached stay open.
func TestSequencesThatBeginAndEndInMidCall(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long outer(long n) { leaf(n); ready(); leaf(n); sink++; return n; }
NOINLINE long outermost(long n) { outer(n); outer(n); return leaf(n) + 1; }
int main(void) { sink = outermost(1) + outermost(2); }
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target) // stops in the first outer
		src, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("leaf", "outer", "outermost"), sequenceColumns...))
		for range 2 {
			r.step()
			r.awaitReady()
		}
		src.Stop()
		r.step()
		r.finish(success)
		want := []string{
			"ENTER leaf 0", "LEAVE leaf 0", // the rest of the first outer
			"ENTER outer 0", "ENTER leaf 1", "LEAVE leaf 1", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE outer 0",
			"ENTER leaf 0", "LEAVE leaf 0",
			"ENTER outermost 0", "ENTER outer 1", "ENTER leaf 2", "LEAVE leaf 2",
		}
		if diff := cmp.Diff(want, got.wait(t).sequences(t)["target"]); diff != "" {
			t.Error(diff)
		}
		if len(got.lost)+len(got.counts) > 0 {
			t.Errorf("lost %v, counts %v", got.lost, got.counts)
		}
	})
}

// A forked child begins with no calls; exec during a call leaves the calls of the
// previous program, and a program that ends during a call leaves those of its threads.
func TestSequencesOverForkExecAndExit(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
#include <sys/prctl.h>
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE pid_t split(void) { sink++; pid_t p = fork(); if (!p) prctl(PR_SET_NAME, "child"); leaf(1); return p; }
NOINLINE long again(char **argv) { sink++; char *a[] = {argv[0], "second", 0}; leaf(2); execv("/proc/self/exe", a); return 1; }
NOINLINE void leave(void) { sink++; exit(0); }
NOINLINE void die(void) { sink++; leave(); sink++; }
int main(int argc, char **argv) {
	if (argc > 1) { prctl(PR_SET_NAME, "target"); die(); }
	ready();
	pid_t p = split();
	if (!p) { leaf(3); _exit(0); }
	waitpid(p, 0, 0);
	again(argv);
}
`, "-O1", "-fno-optimize-sibling-calls")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		sel := testplan.Named("leaf", "split", "again", "leave", "die")
		src, got := start(t, p, testplan.Acquire(catalog.FunctionCall, plan.Target{Exes: []string{target}}, sel, sequenceColumns...))
		r.finish(success)
		src.Stop()
		want := map[string][]string{
			"target": {
				"ENTER split 0", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE split 0",
				"ENTER again 0", "ENTER leaf 1", "LEAVE leaf 1", "UNWIND again 0",
				"ENTER die 0", "ENTER leave 1", "UNWIND leave 1", "UNWIND die 0",
			},
			"child": {"ENTER leaf 0", "LEAVE leaf 0", "ENTER leaf 0", "LEAVE leaf 0"},
		}
		if diff := cmp.Diff(want, got.wait(t).sequences(t)); diff != "" {
			t.Error(diff)
		}
	})
}

// Functions are attached and detached one after the other, but the sequence
// begins and ends for all of them at once: it has no holes where only some are
// probed.
func TestSequencesBeginAndEndForAllFunctionsAtOnce(t *testing.T) {
	testenv.NeedUprobes(t)
	const functions = 400
	var text strings.Builder
	for i := range functions {
		fmt.Fprintf(&text, "NOINLINE void f%d(void) { sink += %[1]d; }\n", i)
	}
	text.WriteString("static void (*const fs[])(void) = {")
	for i := range functions {
		fmt.Fprintf(&text, "f%d,", i)
	}
	target := testenv.CompileCText(t, prelude+text.String()+`};
static volatile int stop;
static void *work(void *p) { while (!stop) for (unsigned i = 0; i < sizeof fs / sizeof *fs; i++) fs[i](); return 0; }
int main(void) {
	pthread_t t; pthread_create(&t, 0, work, 0);
	ready();
	stop = 1;
	pthread_join(t, 0);
}
`, "-O0", "-pthread") // so that functions begin with a push, which the kernel emulates
	multiModes(t, func(t *testing.T, o Options) {
		o.RingBytes = 64 << 20 // the reader may have no processor for a while
		p := provider(t, o)
		r := run(t, target)
		src, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("f%")), sequenceColumns...))
		testenv.Until(t, "there are calls", func() bool { return got.len() > 2*functions })
		src.Stop()
		r.finish(success)
		lines := got.wait(t).sequences(t)["target"]
		if len(lines) < 2*functions {
			t.Fatalf("%d events: too few to show anything", len(lines))
		}
		number := func(line string) int {
			var n int
			if _, err := fmt.Sscanf(line[len("ENTER f"):], "%d 0", &n); err != nil {
				t.Fatalf("event %q: %v", line, err)
			}
			return n
		}
		first := number(lines[0])
		for i, line := range lines {
			want := fmt.Sprintf("%s f%d 0", []string{decode.EventEnter, decode.EventLeave}[i%2], (first+i/2)%functions)
			if line != want {
				t.Fatalf("event %d of %d is %q, want %q", i, len(lines), line, want)
			}
		}
	})
}
