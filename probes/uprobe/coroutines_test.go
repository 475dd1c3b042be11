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
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/resolve"
)

// coroutining is a program with coroutines that notes the calls of each stack:
// of a coroutine by its number, of a thread by the thread's name. They switch by
// swapcontext or, with BYHAND, in assembler. THREADS threads take turns, so that
// each resumes what the other suspended. With INSIDE the stacks lie in a frame of
// the thread's own stack.
const coroutining = prelude + `
#include <stdatomic.h>
#include <string.h>
#include <ucontext.h>
#define APART __attribute__((noinline, noipa))
struct note { const char *event, *name; int depth; };
struct stack {
	char name[16];
	int depth, count, done, id;
	struct note notes[4096];
#ifdef BYHAND
	void *context;
#else
	ucontext_t context;
#endif
	struct stack *by;
};
static struct stack coroutines[N], threads[THREADS];
static __thread struct stack *current;
/* Not inlined: the thread may be another after a switch. */
APART static struct stack *self(void) { __asm__ volatile(""); return current; }
APART static void run_as(struct stack *s) { current = s; __asm__ volatile("" ::: "memory"); }
APART static void entered(const char *name) { struct stack *s = self(); s->notes[s->count++] = (struct note){ "ENTER", name, s->depth++ }; }
APART static void left(const char *name) { struct stack *s = self(); s->notes[s->count++] = (struct note){ "LEAVE", name, --s->depth }; }
#define CALLED entered(__func__)
#define RETURNS left(__func__)

#ifdef BYHAND
void hop(void **from, void *to);
__asm__(".text\n.globl hop\n.type hop,@function\nhop:\n.cfi_startproc\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	" mov %rsp,(%rdi)\n " LOAD "\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n.cfi_endproc\n.size hop,.-hop\n");
#define SWITCH(a, b) hop(&(a)->context, (b)->context)
#else
#define SWITCH(a, b) swapcontext(&(a)->context, &(b)->context)
#endif

APART void yields(void) { CALLED; struct stack *s = self(); run_as(s->by); SWITCH(s, s->by); RETURNS; }
APART void resumes(struct stack *s) { CALLED; s->by = self(); run_as(s); SWITCH(s->by, s); RETURNS; }
NOINLINE long leaf(long n) { CALLED; sink += n; RETURNS; return n; }
NOINLINE long level(long n) {
	CALLED;
	leaf(n);
	if (n % 3 == 1) yields();
	long r = n > 0 ? level(n - 1) : 0;
	if (n == 0) yields();
	leaf(r);
	RETURNS;
	return r + 1;
}
/* Its frame is larger than what others have below it. */
NOINLINE long roomy(long n) { CALLED; volatile char room[900]; room[n] = 1; if (n % 2) yields(); long r = level(n % 3) + room[n]; RETURNS; return r; }
APART static void lives(void) {
	struct stack *s = self();
	for (int i = 0; i < 3 + s->id % 3; i++) { level((s->id + i) % 5); roomy(i); if (s->id % 4 == 0) yields(); }
	s->done = 1;
}
static void body(void) { lives(); for (;;) { struct stack *s = self(); run_as(s->by); SWITCH(s, s->by); } }
static void prepare(struct stack *s, char *room, long size) {
#ifdef BYHAND
	void **top = (void **)((long)(room + size) & ~15L);
	*--top = 0;
	*--top = (void *)body;
	for (int i = 0; i < 6; i++) *--top = 0;
	s->context = top;
#else
	getcontext(&s->context);
	s->context.uc_stack.ss_sp = room; s->context.uc_stack.ss_size = size; s->context.uc_link = 0;
	makecontext(&s->context, body, 0);
#endif
}

static atomic_int turn;
static int alive(void) { int n = 0; for (int i = 0; i < N; i++) n += !coroutines[i].done; return n; }
NOINLINE void schedules(void) { CALLED; for (int i = 0; i < N; i++) { if (coroutines[i].done) continue; resumes(&coroutines[i]); leaf(i); } RETURNS; }
static void *work(void *p) {
	int me = (long)p;
	sprintf(threads[me].name, "w%d", me);
	pthread_setname_np(pthread_self(), threads[me].name);
	run_as(&threads[me]);
	for (;;) {
		while (atomic_load(&turn) != me) usleep(10);
		int more = alive();
		if (more) schedules();
		turn = (me + 1) % THREADS;
		if (!more) return 0;
	}
}
static void tell(struct stack *s) { for (int i = 0; i < s->count; i++) printf("%s %s %s %d\n", s->name, s->notes[i].event, s->notes[i].name, s->notes[i].depth); }
int main(void) {
#ifdef INSIDE
	char rooms[N][16384];
#else
	char (*rooms)[16384] = malloc(N * 16384);
#endif
	for (int i = 0; i < N; i++) { sprintf(coroutines[i].name, "c%d", coroutines[i].id = i); prepare(&coroutines[i], rooms[i], 16384); }
	ready();
	pthread_t t[THREADS];
	for (long i = 1; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)i);
	work(0);
	for (long i = 1; i < THREADS; i++) pthread_join(t[i], 0);
	for (int i = 0; i < THREADS; i++) tell(&threads[i]);
	for (int i = 0; i < N; i++) tell(&coroutines[i]);
	fflush(stdout);
	return 0;
}
`

var coroutineFunctions = []string{"yields", "resumes", "leaf", "level", "roomy", "schedules"}

// coroutineTargets calls f with the program built in several ways.
func coroutineTargets(t *testing.T, f func(t *testing.T, target string)) {
	for _, build := range []struct {
		name  string
		flags []string
	}{
		{"swapcontext, in a frame", []string{"-DN=2", "-DTHREADS=1", "-DINSIDE"}},
		{"by hand, in a frame", []string{"-DN=3", "-DTHREADS=1", "-DINSIDE", "-DBYHAND", `-DLOAD="mov %rsi,%rsp"`}},
		{"swapcontext", []string{"-DN=100", "-DTHREADS=2"}},
		{"swapcontext, static", []string{"-DN=10", "-DTHREADS=2", "-static"}},
		{"by hand", []string{"-DN=100", "-DTHREADS=2", "-DBYHAND", `-DLOAD="mov %rsi,%rsp"`}},
		{"by hand, exchanged", []string{"-DN=10", "-DTHREADS=2", "-DBYHAND", `-DLOAD="xchg %rsi,%rsp"`}},
		{"by hand, loaded", []string{"-DN=10", "-DTHREADS=2", "-DBYHAND", `-DLOAD="push %rsi; mov %rsp,%rax; add $8,%rsp; mov (%rax),%rcx; mov %rcx,8(%rdi); mov 8(%rdi),%rsp"`}},
	} {
		t.Run(build.name, func(t *testing.T) {
			f(t, testenv.CompileCText(t, coroutining, append(build.flags, "-O1", "-pthread", "-fno-optimize-sibling-calls")...))
		})
	}
}

// byStack renames each row's thread to its coroutine, if it is of one.
func (r *record) byStack() {
	id, thread := slices.Index(r.names, "goroutine"), slices.Index(r.names, "thread_name")
	for _, row := range r.rows {
		if !row[id].IsNull {
			row[thread].S = "c" + strconv.FormatInt(row[id].I, 10)
		}
	}
}

// unnumbered returns the sequences of coroutines, whose numbers are not those of
// the program, in order; and those of threads by their names.
func unnumbered(all map[string][]string) (coroutines []string, threads map[string][]string) {
	threads = map[string][]string{}
	for name, lines := range all {
		if name[0] == 'c' {
			coroutines = append(coroutines, strings.Join(lines, "\n"))
		} else {
			threads[name] = lines
		}
	}
	slices.Sort(coroutines)
	return coroutines, threads
}

// The calls of each coroutine and of each thread are a sequence of their own, which
// agrees with the program's notes.
func TestSequencesOfCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, by := range []plan.ReturnProbes{plan.AutoReturns, plan.ExitReturns} {
		coroutineTargets(t, func(t *testing.T, target string) {
			p := provider(t, Options{RingBytes: 64 << 20})
			r := run(t, target)
			spec := testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named(coroutineFunctions...), append(sequenceColumns, "goroutine")...)
			spec.Settings.Returns = by
			src, got := start(t, p, spec)
			switches := 0
			for _, s := range src.Info().Sites {
				if s.Kind == resolve.KindSwitch {
					switches++
				}
			}
			if switches == 0 {
				t.Error("no switch is probed")
			}
			wantStacks, wantThreads := unnumbered(toldBy(r.finish(success)))
			if len(wantStacks) < 2 || len(wantThreads) < 1 {
				t.Fatalf("the program tells of %d coroutines and %d threads", len(wantStacks), len(wantThreads))
			}
			got.wait(t).byStack()
			gotStacks, gotThreads := unnumbered(got.sequences(t))
			sameSequences(t, wantThreads, gotThreads)
			if diff := cmp.Diff(wantStacks, gotStacks); diff != "" {
				t.Errorf("coroutines: %.4000s", diff)
			}
			if len(got.lost)+len(got.counts) > 0 {
				t.Errorf("lost %v, counts %v", got.lost, got.counts)
			}
		})
	}
}

// Each call on a coroutine's stack has a row, with its depth there.
func TestDepthOfCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	coroutineTargets(t, func(t *testing.T, target string) {
		p := provider(t, Options{RingBytes: 64 << 20})
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named(coroutineFunctions...), "function_name", "depth", "duration", "self_time"))
		_, starts := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named(coroutineFunctions...), "function_name", "depth"))
		want := map[string]int{}
		for _, lines := range toldBy(r.finish(success)) {
			for _, l := range lines {
				if call, entered := strings.CutPrefix(l, "ENTER "); entered {
					want[call]++
				}
			}
		}
		for what, rec := range map[string]*record{"durations": got, "starts": starts} {
			rows, depths := map[string]int{}, rec.wait(t).ints("depth")
			for i, name := range rec.strings("function_name") {
				rows[fmt.Sprintf("%s %d", name, depths[i])]++
			}
			if diff := cmp.Diff(want, rows); diff != "" {
				t.Errorf("%s: %s", what, diff)
			}
			if len(rec.lost)+len(rec.counts) > 0 {
				t.Errorf("%s: lost %v, counts %v", what, rec.lost, rec.counts)
			}
		}
		selves := got.ints("self_time")
		for i, d := range got.ints("duration") {
			if d <= 0 || selves[i] < 0 || selves[i] > d {
				t.Fatalf("%s: duration %d, self time %d", got.strings("function_name")[i], d, selves[i])
			}
		}
	})
}

// What leaves calls on a coroutine's stack or on the thread's leaves no others:
// exceptions, and setcontext to where the same stack called getcontext.
func TestCallsLeftOnCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, prelude+`
#include <ucontext.h>
static ucontext_t host, guest, again;
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE void pauses(long n) { sink += n; swapcontext(&guest, &host); sink++; }
NOINLINE long throws(long n) { pauses(n); if (n) throw n; return n; }
NOINLINE long catches(long n) { try { return throws(n) + 1; } catch (long m) { pauses(m); return leaf(m); } }
NOINLINE void restarts(long n) { sink += n; setcontext(&again); }
NOINLINE long repeats(long n) { volatile int left = 2; getcontext(&again); if (left-- > 0) restarts(n); return leaf(n); }
static void body(void) { for (long i = 0;; i++) { catches(i % 2); repeats(i); } }
NOINLINE void resumes(long n) { sink += n; swapcontext(&host, &guest); leaf(n); }
int main(void) {
	ready();
	getcontext(&guest);
	guest.uc_stack.ss_sp = malloc(65536); guest.uc_stack.ss_size = 65536; guest.uc_link = 0;
	makecontext(&guest, body, 0);
	for (long i = 0; i < 4; i++) { resumes(i); repeats(i); }
	return 0;
}
`, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("leaf", "pauses", "throws", "catches", "restarts", "repeats", "resumes"), append(sequenceColumns, "goroutine")...))
	r.finish(success)
	got.wait(t).byStack()
	repeats := []string{"ENTER repeats 0", "ENTER restarts 1", "UNWIND restarts 1", "ENTER restarts 1", "UNWIND restarts 1", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE repeats 0"}
	var thread []string
	for range 4 {
		thread = append(append(thread, "ENTER resumes 0", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE resumes 0"), repeats...)
	}
	coroutine := slices.Concat(
		[]string{"ENTER catches 0", "ENTER throws 1", "ENTER pauses 2", "LEAVE pauses 2", "LEAVE throws 1", "LEAVE catches 0"}, repeats,
		[]string{"ENTER catches 0", "ENTER throws 1", "ENTER pauses 2", "LEAVE pauses 2", "UNWIND throws 1", "ENTER pauses 1", "LEAVE pauses 1", "ENTER leaf 1", "LEAVE leaf 1", "LEAVE catches 0"}, repeats,
		[]string{"ENTER catches 0", "ENTER throws 1", "ENTER pauses 2"})
	stacks, threads := unnumbered(got.sequences(t))
	if diff := cmp.Diff(map[string][]string{"target": thread}, threads); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{strings.Join(coroutine, "\n")}, stacks); diff != "" {
		t.Error(diff)
	}
	if len(got.lost)+len(got.counts) > 0 {
		t.Errorf("lost %v, counts %v", got.lost, got.counts)
	}
}

// Switches are probed only for queries on how calls nest, in programs that switch.
func TestWhereSwitchesAreProbed(t *testing.T) {
	testenv.NeedUprobes(t)
	const plainly = prelude + "NOINLINE long leaf(long n) { sink += n; return n; }\n"
	for _, c := range []struct {
		text, stream, column string
		want                 int
	}{
		{plainly + "int main(void) { ready(); leaf(1); return 0; }", catalog.FunctionCall, "event", 0},
		{plainly + "#include <ucontext.h>\nint main(void) { ready(); ucontext_t a; leaf(getcontext(&a)); return 0; }", catalog.FunctionCall, "event", 0},
		{plainly + "#include <ucontext.h>\nint main(int n, char **v) { ready(); ucontext_t a; leaf(n); if (n > 9) setcontext(&a); return 0; }", catalog.FunctionCall, "event", 0},
		{plainly + "#include <ucontext.h>\nint main(int n, char **v) { ready(); ucontext_t a, b; leaf(n); if (n > 9) swapcontext(&a, &b); return 0; }", catalog.FunctionCall, "event", 2},
		{plainly + "#include <ucontext.h>\nint main(int n, char **v) { ready(); ucontext_t a, b; leaf(n); if (n > 9) swapcontext(&a, &b); return 0; }", catalog.FunctionDuration, "depth", 2},
		{plainly + "#include <ucontext.h>\nint main(int n, char **v) { ready(); ucontext_t a, b; leaf(n); if (n > 9) swapcontext(&a, &b); return 0; }", catalog.FunctionDuration, "duration", 0},
		{plainly + contextSwitch + "static void *a;\nint main(int n, char **v) { ready(); leaf(n); if (n > 9) jump(&a, begin(0, 9, 0)); return 0; }", catalog.FunctionStart, "depth", 1},
		{plainly + contextSwitch + "static void *a;\nint main(int n, char **v) { ready(); leaf(n); if (n > 9) jump(&a, begin(0, 9, 0)); return 0; }", catalog.FunctionStart, "function_name", 0},
	} {
		target := testenv.CompileCText(t, c.text, "-O1")
		p := provider(t, Options{})
		r := run(t, target)
		src, got := start(t, p, testplan.Acquire(c.stream, r.target(), testplan.Named("leaf"), c.column))
		n := 0
		for _, s := range src.Info().Sites {
			if s.Kind == resolve.KindSwitch {
				n++
			}
		}
		if n != c.want {
			t.Errorf("%s of %s: %d switches, want %d", c.column, c.stream, n, c.want)
		}
		r.finish(success)
		got.wait(t)
	}
}

// A coroutine that is never resumed does not affect another that begins on its stack.
func TestStacksUsedAgain(t *testing.T) {
	testenv.NeedUprobes(t)
	const generations = 4
	target := testenv.CompileCText(t, prelude+contextSwitch+`
static void *host, *guest;
static char stack[65536] __attribute__((aligned(16)));
NOINLINE void work(long n) { sink += n; }
NOINLINE void yields(long n) { sink += n; jump(&guest, host); } /* a tail call */
NOINLINE void lives(void) { for (long i = 0; i < 2; i++) { work(i); yields(i); } yields(3); abort(); }
int main(void) {
	ready();
	for (int i = 0; i < `+strconv.Itoa(generations)+`; i++) {
		guest = begin(stack, sizeof stack, lives);
		for (int k = 0; k < 3; k++) jump(&host, guest);
	}
	return 0;
}
`, "-O2")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Named("work", "yields", "lives"), append(sequenceColumns, "goroutine")...))
		_, durations := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("work", "yields", "lives"), "function_name", "depth"))
		r.finish(success)
		got.wait(t).byStack()
		stacks, threads := unnumbered(got.sequences(t))
		one := strings.Join([]string{
			"ENTER lives 0",
			"ENTER work 1", "LEAVE work 1", "ENTER yields 1", "LEAVE yields 1",
			"ENTER work 1", "LEAVE work 1", "ENTER yields 1", "LEAVE yields 1",
			"ENTER yields 1", "LEAVE yields 1",
		}, "\n")
		if diff := cmp.Diff(slices.Repeat([]string{one}, generations), stacks); diff != "" || len(threads) > 0 {
			t.Error(diff, threads)
		}
		if diff := cmp.Diff(map[string]uint64{"unfinished": generations}, durations.wait(t).counts); diff != "" || len(durations.rows) != 5*generations {
			t.Error(diff, len(durations.rows))
		}
	})
}
