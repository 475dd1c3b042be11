package uprobe

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// accounting makes a program record when each of its calls begins and ends, and within
// which other call. The program prints one line for each at its end.
const accounting = prelude + `
#include <signal.h>
#include <ucontext.h>
enum { SPANS = 20000 };
struct span { const char *name; long begin, end; int whose, around; };
static __thread struct span *spans;
static __thread int used, top, whose;
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000 + t.tv_nsec; }
static int enters(const char *name) {
	int me = used++;
	if (me >= SPANS) abort();
	spans[me] = (struct span){ name, 0, 0, whose, top };
	top = me;
	spans[me].begin = now();
	return me;
}
static void leaves(int me) { spans[me].end = now(); top = spans[me].around; }
static void begins(void) { spans = calloc(SPANS, sizeof *spans); used = 0; top = -1; whose = gettid(); }
static void tells(void) {
	flockfile(stdout);
	for (int i = 0; i < used; i++)
		printf("%d %s %ld %ld %d\n", spans[i].whose, spans[i].name, spans[i].begin, spans[i].end, spans[i].around);
	funlockfile(stdout);
}
#define SPAN int me = enters(__func__)
#define END leaves(me)
static void burns(long n) { for (long i = 0; i < n; i++) sink += i; }
NOINLINE void leaf(long n) { SPAN; burns(n); END; }
`

// span is a call on thread whose, as recorded by the program: around is the index of the
// enclosing call, -1: none. end is 0 where it was left by a jump.
type span struct {
	whose      int64
	name       string
	begin, end int64
	around     int
}

// spansOf parses the records printed by the threads.
func spansOf(t *testing.T, lines []string) map[int64][]span {
	t.Helper()
	out := map[int64][]span{}
	for _, line := range lines {
		var s span
		if _, err := fmt.Sscan(line, &s.whose, &s.name, &s.begin, &s.end, &s.around); err != nil {
			t.Fatalf("the program says %q", line)
		}
		out[s.whose] = append(out[s.whose], s)
	}
	return out
}

// checkAccount compares rows with the program's records of a thread: each call is a row,
// which encloses what the program measured within it and is not longer than the time
// between the events around it; its self_time is its duration minus those of the calls
// made within it.
func checkAccount(t *testing.T, spans []span, rows []interval) (n int) {
	t.Helper()
	slices.SortFunc(rows, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	of := map[string][]interval{}
	for _, row := range rows {
		of[row.function] = append(of[row.function], row)
	}
	row := make([]*interval, len(spans))
	for i, s := range spans {
		if s.end == 0 {
			continue
		}
		list := of[s.name]
		if len(list) == 0 {
			t.Fatalf("call %d, of %s, is no row", i, s.name)
		}
		of[s.name], row[i] = list[1:], &list[0]
		if r := row[i]; r.duration < s.end-s.begin {
			t.Errorf("call %d, of %s: duration is %d, the program measured %d within it", i, s.name, r.duration, s.end-s.begin)
		}
		n++
	}
	for name, left := range of {
		if len(left) > 0 {
			t.Errorf("%d rows of %s too many", len(left), name)
		}
	}
	within := make([]int64, len(spans))
	for i, s := range spans {
		if row[i] == nil {
			continue
		}
		around := s.around
		for around >= 0 && row[around] == nil {
			around = spans[around].around // it was left: its calls count for the enclosing one
		}
		if around >= 0 {
			within[around] += row[i].duration
			if outer := row[around]; row[i].start < outer.start || row[i].end > outer.end {
				t.Errorf("call %d, of %s, lies not within that of %s", i, s.name, outer.function)
			}
		}
	}
	for i, r := range row {
		if r != nil && r.self != r.duration-within[i] {
			t.Errorf("call %d, of %s: self_time is %d, want %d less %d", i, r.function, r.self, r.duration, within[i])
		}
	}
	return n
}

// Duration and self time of calls agree with the program's own records: through
// callbacks, recursion, signal handlers, longjmp and on several threads.
func TestSelfTimeByProgram(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, accounting+`
static __thread jmp_buf env;
NOINLINE int compares(const void *a, const void *b) { SPAN; leaf(5); int d = *(const int *)a - *(const int *)b; END; return d; }
NOINLINE void sorts(void) { SPAN; int v[] = {4, 2, 9, 1, 7}; qsort(v, 5, sizeof *v, compares); sink += v[0]; END; }
NOINLINE void handler(int s) { SPAN; leaf(20); END; }
NOINLINE void signals(void) { SPAN; burns(50); raise(SIGUSR1); burns(50); END; }
NOINLINE void recurs(long n) { SPAN; if (n) { recurs(n - 1); burns(10); recurs(n - 1); } else leaf(10); END; }
NOINLINE void jumps(long n) { SPAN; leaf(30); if (!n) longjmp(env, 1); jumps(n - 1); END; }
NOINLINE void catches(long n) { SPAN; int mine = me; if (!setjmp(env)) jumps(n); top = mine; leaf(10); leaves(mine); }
/* Nothing is called between the jump and the return that could show what was left. */
NOINLINE void lands(long n) { SPAN; int mine = me; leaf(n); if (!setjmp(env)) jumps(n); top = mine; leaves(mine); }
NOINLINE void root(long n) { SPAN; sorts(); signals(); recurs(4); catches(3); lands(2); leaf(n); END; }
static void *work(void *p) { begins(); for (int i = 0; i < 12; i++) root(100 * i); tells(); return 0; }
int main(void) {
	signal(SIGUSR1, handler);
	ready();
	pthread_t t[2];
	for (int i = 0; i < 2; i++) pthread_create(&t[i], 0, work, 0);
	work(0);
	for (int i = 0; i < 2; i++) pthread_join(t[i], 0);
	return 0;
}`, "-O1", "-pthread", "-fno-optimize-sibling-calls")
	names := testplan.Named("leaf", "compares", "sorts", "handler", "signals", "recurs", "jumps", "catches", "lands", "root")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), names, selfColumns...))
		told := spansOf(t, r.finish(success))
		rows := map[int64][]interval{}
		for _, c := range intervals(got.wait(t), "tid") {
			rows[c.whose] = append(rows[c.whose], c)
		}
		if len(got.lost) > 0 || len(rows) != 3 || len(told) != 3 {
			t.Fatal(got.lost, len(rows), len(told))
		}
		n := 0
		for tid, spans := range told {
			n += checkAccount(t, spans, rows[tid])
		}
		if want := 3 * 12 * (31 + 16 + 1); n < want {
			t.Errorf("%d calls compared, want at least %d", n, want)
		}
		t.Logf("%d calls", n)
	})
}

// Each of a program's own stacks has an account. The time in which a thread runs on another
// stack is part of the self time of the call by which it switched stacks.
func TestSelfTimeOfCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, accounting+`
static ucontext_t home, away[2];
static int current, tops[2];
static void yields(void) { int mine = top; swapcontext(&away[current], &home); top = mine; }
NOINLINE void step(long n) { SPAN; leaf(n); yields(); leaf(2 * n); END; }
NOINLINE void coroutine(void) { top = -1; SPAN; for (int i = 0; i < 5; i++) { step(50 * i); yields(); } END; }
static void resumes(int i) { int mine = top; current = i; swapcontext(&home, &away[i]); top = mine; }
NOINLINE void loops(void) { SPAN; for (int i = 0; i < 22; i++) { leaf(20); resumes(i % 2); } END; }
int main(void) {
	static char stacks[2][65536];
	for (int i = 0; i < 2; i++) {
		getcontext(&away[i]);
		away[i].uc_stack.ss_sp = stacks[i]; away[i].uc_stack.ss_size = sizeof stacks[i]; away[i].uc_link = &home;
		makecontext(&away[i], coroutine, 0);
	}
	ready(); begins(); loops(); tells();
	return 0;
}`, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "step", "coroutine", "loops"), selfColumns...))
	told := spansOf(t, r.finish(success))
	rows := intervals(got.wait(t), "tid")
	for _, spans := range told {
		elsewhere := 0
		for i, s := range spans {
			if root := outermost(spans, i); root.name == "coroutine" {
				elsewhere++
			}
			if s.end == 0 {
				t.Errorf("call %d, of %s, did not end", i, s.name)
			}
		}
		if n := checkAccount(t, spans, rows); n != 23+32 || elsewhere != 32 || len(got.counts) != 0 {
			t.Errorf("%d calls, %d on other stacks: %v", n, elsewhere, got.counts)
		}
	}
	if len(told) != 1 || len(got.lost) > 0 {
		t.Error(len(told), got.lost)
	}
}

// outermost returns the outermost call that encloses call i.
func outermost(spans []span, i int) span {
	for spans[i].around >= 0 {
		i = spans[i].around
	}
	return spans[i]
}
