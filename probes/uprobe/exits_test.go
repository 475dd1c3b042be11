package uprobe

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/clock"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/resolve"
)

// byExits returns an acquisition that observes returns at exits.
func byExits(stream string, t plan.Target, sel plan.Expr, cols ...string) *plan.Acquire {
	a := testplan.Acquire(stream, t, sel, cols...)
	a.Settings.Returns = plan.ExitReturns
	return a
}

// compileCC is CompileC for a C++ program.
func compileCC(t *testing.T, text string, flags ...string) string {
	t.Helper()
	src := filepath.Join(t.TempDir(), "target.cc")
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return testenv.CompileC(t, src, flags...)
}

// Exceptions unwind through monitored calls, destructors run meanwhile, and the program
// is unharmed. Calls left that way are counted; the call that catches it returns.
func TestExceptions(t *testing.T) {
	testenv.NeedUprobes(t)
	const rounds = 300
	text := prelude + fmt.Sprintf(`
#include <stdexcept>
static long alive;
struct Held {
	NOINLINE Held() { alive++; }
	NOINLINE ~Held() { alive--; }
};
struct Shape {
	NOINLINE virtual long area(long n) { sink += n; return n; }
	virtual ~Shape() {}
};
struct Square : Shape {
	NOINLINE long area(long n) override { Held h; return Shape::area(n) * n; }
};
struct Odd : Square {
	NOINLINE long area(long n) override {
		Held h;
		if (n %% 3 == 0) throw std::runtime_error("odd");
		return Square::area(n) + 1;
	}
};
NOINLINE long through(Shape &s, long n) { Held h; long r = s.area(n); sink++; return r; }
NOINLINE long deep(Shape &s, long n, long m) { Held h; return m ? deep(s, n, m - 1) + 1 : through(s, n); }
NOINLINE long caught(Shape &s, long n) {
	try { return deep(s, n, 10); } catch (std::exception &) { sink++; return -1; }
}
int main() {
	ready();
	Odd o; Square q;
	for (long i = 0; i < %d; i++) {
		long r = caught(o, i);
		if (r != (i %% 3 ? i * i + 1 + 10 : -1)) return 4;
		if (caught(q, i) != i * i + 10) return 5;
	}
	return alive ? 6 : 0;
}
`, rounds)
	const thrown = rounds / 3
	for _, flags := range [][]string{{"-O0"}, {"-O1"}, {"-O2"}, {"-Os"}, {"-O2", "-fno-omit-frame-pointer", "-fcf-protection"}} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			target := compileCC(t, text, flags...)
			p := provider(t, Options{})
			r := run(t, target)
			_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("Shape::area", "Square::area", "Odd::area", "through", "deep", "caught"),
				"function_name", "class", "duration", "retval"))
			r.finish(success)
			want := map[string]int{
				"Shape::area": 2*rounds - thrown, "Square::area": 2*rounds - thrown, "Odd::area": rounds - thrown,
				"through": 2*rounds - thrown, "deep": 11 * (2*rounds - thrown), "caught": 2 * rounds,
			}
			if diff := cmp.Diff(want, tally(got.wait(t).strings("function_name"))); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(map[string]uint64{"unfinished": thrown * (11 + 1 + 1)}, got.counts); diff != "" {
				t.Error(diff)
			}
			classes := got.strings("class")
			for i, name := range got.strings("function_name") {
				if c := classes[i]; strings.Contains(name, "::") && name != c+"::area" {
					t.Fatalf("class of %s is %q", name, c)
				}
			}
		})
	}
}

// Coroutines suspend during monitored calls and resume on another thread, where the
// calls end.
func TestCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	const coroutines, rounds = 8, 200
	target := testenv.CompileCText(t, prelude+fmt.Sprintf(`
#include <ucontext.h>
#include <stdatomic.h>
enum { N = %d, ROUNDS = %d };
static ucontext_t host[2], guest[N];
static atomic_int turn;
static int on[N], done;
NOINLINE void yield_(int i) { swapcontext(&guest[i], &host[on[i]]); }
NOINLINE long hop(long i, long n) { sink += n; yield_(i); sink++; return n; }
NOINLINE long outer(long i, long n) { long r = hop(i, n) + hop(i, n + 1); sink++; return r; }
static void body(int i) { for (long n = 0; n < ROUNDS; n++) if (outer(i, n) != 2 * n + 1) exit(7); done++; for (;;) yield_(i); }
/* The two threads take turns: each resumes what the other suspended. */
static void *work(void *p) {
	int me = (long)p;
	for (;;) {
		while (atomic_load(&turn) != me) usleep(10);
		if (done == N) { turn = !me; return 0; }
		for (int i = 0; i < N; i++) { on[i] = me; swapcontext(&host[me], &guest[i]); }
		turn = !me;
	}
}
int main(void) {
	ready();
	for (int i = 0; i < N; i++) {
		getcontext(&guest[i]);
		guest[i].uc_stack.ss_sp = malloc(65536); guest[i].uc_stack.ss_size = 65536; guest[i].uc_link = 0;
		makecontext(&guest[i], (void (*)(void))body, 1, i);
	}
	pthread_t t; pthread_create(&t, 0, work, (void *)1);
	work(0);
	pthread_join(t, 0);
	return 0;
}
`, coroutines, rounds), "-O1", "-pthread")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, byExits(catalog.FunctionDuration, r.target(), testplan.Named("hop", "outer", "yield_"), "function_name", "arg1", "retval"))
	_, ends := start(t, p, byExits(catalog.FunctionEnd, r.target(), testplan.Named("hop"), "tid"))
	r.finish(success)
	rows := tally(got.wait(t).strings("function_name"))
	if rows["hop"] != 2*coroutines*rounds || rows["outer"] != coroutines*rounds {
		t.Errorf("rows %v", rows)
	}
	args, values := got.ints("arg1"), got.ints("retval")
	for i, name := range got.strings("function_name") {
		if n, r := args[i], values[i]; name == "hop" && r != n || name == "outer" && r != 2*n+1 {
			t.Fatalf("%s(%d) = %d", name, n, r)
		}
	}
	// At the end each coroutine waits in yield_ for ever.
	if diff := cmp.Diff(map[string]uint64{"unfinished": coroutines}, got.counts); diff != "" {
		t.Error(diff)
	}
	if n := tally(ends.wait(t).ints("tid")); len(n) != 2 {
		t.Errorf("calls ended by thread: %v, want two", n)
	}
}

// Calls may nest as deeply as the stack allows.
func TestDeepRecursion(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long down(long n) { sink++; return n == 0 ? 0 : 1 + down(n-1); }
int main(void) { ready(); for (int i = 0; i < 3; i++) if (down(4999) != 4999) return 3; return 0; }
`, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, byExits(catalog.FunctionDuration, r.target(), testplan.Named("down"), "arg0", "retval", "duration"))
	r.finish(success)
	if n := len(got.wait(t).rows); n != 3*5000 || len(got.counts)+len(got.lost) > 0 {
		t.Fatalf("%d rows, want %d; %v, %v", n, 3*5000, got.counts, got.lost)
	}
	took, args, values := map[int64]int64{}, got.ints("arg0"), got.ints("retval")
	for i, d := range got.ints("duration") {
		arg := args[i]
		if values[i] != arg {
			t.Fatalf("down(%d) = %d", arg, values[i])
		}
		if arg > 0 && d <= took[arg-1] {
			t.Fatalf("down(%d) took %d, and its call of down(%d) %d", arg, d, arg-1, took[arg-1])
		}
		took[arg] = d
	}
}

// Calls that find the table full are reported as lost; the others pair.
func TestTooManyCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long down(long n) { sink++; return n == 0 ? 0 : 1 + down(n-1); }
int main(void) { ready(); for (int i = 0; i < 3; i++) down(999); return 0; }
`, "-O1", "-fno-optimize-sibling-calls")
	p := provider(t, Options{MaxCalls: 100})
	r := run(t, target)
	_, got := start(t, p, byExits(catalog.FunctionDuration, r.target(), testplan.Named("down"), "arg0", "retval"))
	r.finish(success)
	n, lost := len(got.wait(t).rows), int(got.lost["no room for calls in progress"])
	if n+lost != 3000 || n < 300 || lost < 2000 || len(got.counts) > 0 {
		t.Errorf("%d rows, lost %v, counts %v; want 3000 in all", n, got.lost, got.counts)
	}
	if !slices.Equal(got.ints("arg0"), got.ints("retval")) {
		t.Error("calls were paired wrongly")
	}
}

// A tail call ends the call that makes it, before there is a value; an early return, and
// one at the function's only instruction, are ordinary returns.
func TestEveryWayOut(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long third(long n) { sink += n; return n; }
NOINLINE long second(long n) { sink++; if (n % 2) return 5; return third(n + 1); }
NOINLINE long first(long n) { sink++; return second(n + 1); }
NOINLINE long early(long n) { if (n == 3) return 30; sink++; if (n == 4) return 40; sink++; return third(n) + 1; }
long thunk(long); void nothing(void);
__asm__(".text\n.globl thunk\n.type thunk,@function\nthunk: jmp third\n.size thunk,.-thunk\n"
	".globl nothing\n.type nothing,@function\nnothing: ret\n.size nothing,.-nothing\n");
int main(void) { ready(); for (int i = 0; i < 100; i++) { first(i); early(i % 10); thunk(i); nothing(); } return 0; }
`, "-O2", "-fcf-protection=none")
	for _, links := range []attach.Kind{attach.Multi, attach.Perf} {
		t.Run(links.String(), func(t *testing.T) {
			needFeature(t, links.Needs())
			p := provider(t, Options{Links: links.String()})
			r := run(t, target)
			src, got := start(t, p, byExits(catalog.FunctionDuration, r.target(), testplan.Named("first", "second", "third", "early", "thunk", "nothing"), "function_name", "arg0", "retval", "duration"))
			r.finish(success)
			rows := map[string]int{}
			for _, row := range got.wait(t).rows {
				name, arg, value := row[0].S, row[1].I, row[2]
				if value.IsNull {
					name += " NULL"
				}
				rows[name]++
				switch {
				case value.IsNull || name == "nothing":
				case name == "early" && value.I == map[int64]int64{3: 30, 4: 40}[arg]:
				case name == "early" && arg != 3 && arg != 4 && value.I == arg+1:
				case name == "third" && value.I == arg, name == "second" && value.I == 5:
				default:
					t.Errorf("%s(%d) = %d", name, arg, value.I)
				}
				if d := row[3].I; d < 0 {
					t.Errorf("%s took %d", name, d)
				}
			}
			want := map[string]int{"first NULL": 100, "second NULL": 50, "second": 50, "third": 50 + 80 + 100, "early": 100, "thunk NULL": 100, "nothing": 100}
			if diff := cmp.Diff(want, rows); diff != "" || len(got.counts) > 0 {
				t.Error(diff, got.counts)
			}
			kinds := map[string]string{}
			for _, s := range src.Info().Sites {
				if !strings.HasPrefix(s.Kind, "exit") {
					kinds[s.Function], _, _ = strings.Cut(s.Kind, " (perf)")
				}
			}
			if kinds["early"] != "entry+exits (2)" || kinds["thunk"] != "entry+exits (1)" {
				t.Errorf("kinds %v", kinds)
			}
		})
	}
}

// Queries start and stop during calls: a row is a call that began and ended while its
// query was armed.
func TestArmedInMidCall(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
static long now(void) { struct timespec t; clock_gettime(CLOCK_BOOTTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
NOINLINE long inner(long n) { usleep(n % 300); return n; }
NOINLINE long outer(long n, long began) { return inner(n) + inner(n); }
static volatile int stop;
static void *work(void *p) { for (long n = (long)p; !stop; n += 4) outer(n, now()); return 0; }
int main(void) {
	ready();
	pthread_t t[4];
	for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
	char b[16]; fgets(b, sizeof b, stdin);
	stop = 1;
	for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
	return 0;
}
`, "-O1", "-pthread")
	p := provider(t, Options{})
	r := run(t, target)
	r.step()
	rows := 0
	for i := range 12 {
		began := clock.Boot() + p.offset
		src, got := start(t, p, byExits(catalog.FunctionDuration, r.target(), testplan.Named("inner", "outer"), "function_name", "arg0", "arg1", "retval", "start_time", "duration", "depth"))
		time.Sleep(time.Duration(i*5) * time.Millisecond) // duration of the query
		if err := src.Stop(); err != nil {
			t.Fatal(err)
		}
		rows += len(got.wait(t).rows)
		for _, row := range got.rows {
			name, arg, own, value, start := row[0].S, row[1].I, row[2].I, row[3].I, row[4].I
			if start < began {
				t.Fatalf("%s began %v before its query", name, time.Duration(began-start))
			}
			if name == "inner" && value != arg || name == "outer" && (value != 2*arg || own+p.offset > start) {
				t.Fatalf("%s(%d) = %d, from %d or %d on", name, arg, value, own, start)
			}
			if depth := row[6].I; name == "outer" && depth != 0 || depth > 1 {
				t.Fatalf("%s at depth %d", name, depth)
			}
		}
		// A thread that is interrupted while the kernel makes room for its calls keeps others on its
		// processor from the same (kernel/bpf/bpf_task_storage.c). That is counted.
		const refused = "no memory for calls in progress"
		if got.lost[refused] <= 4 {
			delete(got.lost, refused)
		}
		if n := got.counts["unfinished"]; n > 8 || len(got.counts) > 1 || len(got.lost) > 0 {
			t.Errorf("counts %v, lost %v; at most 8 calls can be under way", got.counts, got.lost)
		}
	}
	if rows == 0 {
		t.Error("no rows")
	}
	r.finish(success)
}

// Entries of processes that end during calls are removed from the kernel's tables soon;
// calls under way elsewhere remain.
func TestEndedProcessesAreSwept(t *testing.T) {
	testenv.NeedUprobes(t)
	const children = 100
	target := testenv.CompileCText(t, prelude+fmt.Sprintf(`
NOINLINE void leave(int n) { sink++; _exit(n); }
NOINLINE void middle(int n) { leave(n); sink++; }
NOINLINE int stay(void) { char b[16]; puts("staying"); fflush(stdout); return fgets(b, sizeof b, stdin) != 0; }
int main(void) {
	ready();
	for (int i = 0; i < %d; i++) { if (fork() == 0) middle(0); wait(0); }
	return !stay();
}
`, children), "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	src, got := start(t, p, byExits(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Named("leave", "middle", "stay"), "function_name", "depth"))
	r.step()
	if line := r.line(); line != "staying" {
		t.Fatalf("target said %q", line)
	}
	in := p.active[src.(*source)]
	held := func() (n int) {
		var f bpf.FunctionFrame
		var c bpf.FunctionPending
		for it := in.Sweeper.Calls.Iterate(); it.Next(&f, &c); {
			n++
		}
		return n
	}
	if n := held(); n != 2*children+1 {
		t.Errorf("%d calls are under way or left, want %d", n, 2*children+1)
	}
	sweepAfter := func(every uint64) {
		p.reader.Do(func() {
			in.Sweeper.Every = every
			in.Sweeper.Consider(bpf.FunctionCounters{Armed: [program.Generations]uint64{1000 + 2*children}, Returned: [program.Generations]uint64{1000}})
		})
		in.Sweeper.Wait()
	}
	sweepAfter(1000)
	if n := held(); n != 2*children+1 {
		t.Errorf("%d are left after too few calls for a sweep, want %d", n, 2*children+1)
	}
	sweepAfter(children)
	if n := held(); n != 1 {
		t.Errorf("%d are left after a sweep, want 1", n)
	}
	r.finish(success)
	src.Stop()
	if diff := cmp.Diff(map[string]int{"stay": 1}, tally(got.wait(t).strings("function_name"))); diff != "" || got.counts["unfinished"] != 2*children {
		t.Error(diff, got.counts)
	}
}

// Exits count as probes and copy code, and are reported by name where they are
// expensive.
func TestExitsAreAccountedFor(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
__asm__(".text\n.globl cheap\n.type cheap,@function\ncheap: push %rbx\npop %rbx\njmp 1f\n1: ret\n.size cheap,.-cheap\n"
	".balign 4096\n.globl dear\n.type dear,@function\ndear: push %rbx\ntest %rdi,%rdi\nje 1f\npop %rbx\nret\n1: pop %rbx\n.rept 1400\nmov %rcx,%rcx\n.endr\nret\n.size dear,.-dear\n.balign 4096\n");
long cheap(long), dear(long);
int main(void) { ready(); for (int i = 0; i < 3; i++) { cheap(i); dear(i); } return 0; }
`, "-O1")
	p := provider(t, Options{MaxProbes: 4})
	r := run(t, target)
	_, err := p.Prepare(t.Context(), byExits(catalog.FunctionDuration, r.target(), testplan.Named("cheap", "dear"), "duration"))
	refused(t, err, "5 entries and exits of functions would be probed, and at most 4 may be at a time", "choose functions by name, or raise the limit: SET max_probes = 5")

	spec := byExits(catalog.FunctionDuration, r.target(), testplan.Named("dear"), "duration", "retval")
	spec.Settings.MaxTextCopy = 2*resolve.PageSize - 1
	_, err = p.Prepare(t.Context(), spec)
	refused(t, err, "probing 1 functions in 1 processes would copy 8 KiB of code", "")
	spec.Settings.MaxTextCopy = 2 * resolve.PageSize
	src, got := start(t, p, spec)
	if ns := src.Info().Notices; len(ns) != 1 || !strings.HasPrefix(ns[0], "a return of dear costs about 17us more") {
		t.Errorf("notices %q", ns)
	}
	r.finish(success)
	if n := len(got.wait(t).rows); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
}
