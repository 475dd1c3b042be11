package uprobe

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// paths is a program whose function target is called in ways selected by its argument,
// the last of them from a library. It has no frame pointers.
const paths = prelude + `
#include <alloca.h>
#include <signal.h>
NOINLINE long target(long n) { sink += n; return n; }
NOINLINE long one(long n) { return target(n) + 1; }
NOINLINE long two(long n) { long r = one(n); sink += r; return r; }
NOINLINE long varies(long n) { char *room = alloca(sink % 7 * 16 + 16 + n); room[0] = n; sink += (long)room; return two(n) + room[0]; }
NOINLINE long deep(long n, long k) { volatile char room[32]; room[0] = k; return k ? deep(n, k - 1) + room[0] : target(n); }
NOINLINE int compare(const void *a, const void *b) { return target(4) > 9 ? 1 : *(int *)a - *(int *)b; }
NOINLINE long sorts(void) { int list[2] = {2, 1}; qsort(list, 2, sizeof *list, compare); return list[0]; }
static void handle(int s) { two(5); }
NOINLINE long raises(void) { raise(SIGUSR1); return 0; }
NOINLINE long all(void) { return target(0) + one(1) + varies(2) + deep(3, 20) + sorts() + raises(); }
static void *work(void *p) { for (int i = 0; i < 20; i++) sink += all(); return 0; }
int main(void) {
	signal(SIGUSR1, handle);
	ready();
	pthread_t t;
	pthread_create(&t, 0, work, 0);
	sink += all();
	pthread_join(t, 0);
	work(0);
	return 0;
}`

// pathsTaken lists, by argument, the functions of paths and of the system's libraries
// between them.
var pathsTaken = []string{
	"target all",
	"target one all",
	"target one two varies all",
	"target" + strings.Repeat(" deep", 21) + " all",
	"target compare * sorts all",
	"target one two handle [signal] * raises all",
}

// frames returns the names in a stack.
func frames(v types.Value) (names []string) {
	list, _ := v.A.([]types.Value)
	for _, f := range list {
		names = append(names, f.A.([]types.Value)[0].S)
	}
	return names
}

// matches reports whether names match a pattern, in which * stands for any functions of
// the system up to the thread's first function.
func matches(names []string, pattern string, roots ...string) bool {
	want := strings.Fields(pattern)
	for len(want) > 0 && len(names) > 0 {
		switch {
		case names[0] == want[0]:
			names, want = names[1:], want[1:]
		case want[0] == "*" && names[0] == want[1]:
			want = want[1:]
		case want[0] == "*":
			names = names[1:]
		default:
			return false
		}
	}
	return len(want) == 0 && len(names) > 0 && slices.Contains(roots, names[0])
}

// Each call's stack is the path by which the program got there, although return traps
// replace return addresses on it, and its caller is the function above.
func TestStacksOfCalls(t *testing.T) {
	testenv.NeedUprobes(t)
	for name, flags := range map[string][]string{
		"optimised":           {"-O2", "-fomit-frame-pointer"},
		"with frame pointers": {"-O1", "-fno-omit-frame-pointer"},
	} {
		target := testenv.CompileCText(t, paths, append(flags, "-pthread", "-fno-optimize-sibling-calls")...)
		t.Run(name, func(t *testing.T) {
			returnModes(t, func(t *testing.T, o Options) { checkPaths(t, o, target, "work", "main") })
		})
	}
}

func checkPaths(t *testing.T, o Options, target string, roots ...string) {
	p := provider(t, o)
	r := run(t, target)
	columns := []string{"arg0", "caller", "stack", "function_name"}
	// The others' returns are trapped as well: their return addresses are replaced.
	names := testplan.Named("target", "one", "two", "varies", "deep", "compare", "sorts", "raises", "all")
	_, others := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), names, "duration"))
	_, starts := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("target"), columns...))
	_, nested := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("target"), append(columns, "depth")...))
	_, ends := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("target"), columns...))
	_, alone := start(t, p, testplan.Acquire(catalog.FunctionEnd, r.target(), names, "caller", "function_name"))
	r.finish(success)
	others.wait(t)
	const times = 41
	for stream, got := range map[string]*record{"function_start": starts, "function_start with depth": nested, "function_duration": ends} {
		got.wait(t)
		if n := tally(got.ints("arg0")); len(n) != len(pathsTaken) || n[0] != times || n[5] != times || len(got.lost) > 0 {
			t.Fatalf("%s: %v, lost %v", stream, n, got.lost)
		}
		if diff := cmp.Diff(map[string]uint64{}, got.counts); diff != "" {
			t.Errorf("%s: %s", stream, diff)
		}
		for i, row := range got.rows {
			arg, stack := row[0].I, frames(row[2])
			if !matches(stack, pathsTaken[arg], roots...) {
				t.Fatalf("%s: the stack of row %d, target(%d), is %s\nwant %s", stream, i, arg, strings.Join(stack, " "), pathsTaken[arg])
			}
			if want := strings.Fields(pathsTaken[arg])[1]; row[1].S != want {
				t.Errorf("%s: the caller of target(%d) is %q, want %s", stream, arg, row[1].S, want)
			}
		}
	}
	callers := map[string]map[string]int{}
	for i, f := range alone.wait(t).strings("function_name") {
		if callers[f] == nil {
			callers[f] = map[string]int{}
		}
		callers[f][alone.strings("caller")[i]]++
	}
	for f, want := range map[string]map[string]int{
		"target": {"all": times, "one": 3 * times, "deep": times, "compare": times}, "one": {"all": times, "two": 2 * times},
		"deep": {"all": times, "deep": 20 * times}, "varies": {"all": times},
	} {
		if diff := cmp.Diff(want, callers[f]); diff != "" {
			t.Errorf("callers of %s: %s", f, diff)
		}
	}
}

// C++ has no return traps, and Go no unwind tables of the usual kind.
func TestStacksOfMethodsAndGoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	t.Run("C++", func(t *testing.T) {
		target := compileCC(t, prelude+`
struct Shape { virtual long area(long n) = 0; virtual ~Shape() {} };
struct Circle : Shape { NOINLINE long area(long n) override { sink += n; return n; } };
struct Group { Shape *s; NOINLINE long total(long n) { long r = s->area(n) + 1; sink += r; return r; } };
NOINLINE long measure(Group &g, long n) { std::vector<long> v(n + 1, n); return g.total(v[n]) + v.size(); }
NOINLINE long tries(Group &g, long n) { try { if (n % 2) throw n; return measure(g, n) + 1; } catch (long k) { return g.total(k) + 2; } }
int main() { ready(); Circle c; Group g{&c}; for (long i = 0; i < 100; i++) sink += tries(g, i); return 0; }
`, "-O2", "-fno-reorder-blocks-and-partition", "-fomit-frame-pointer", "-include", "vector", "-fno-optimize-sibling-calls")
		p := provider(t, Options{})
		r := run(t, target)
		columns := []string{"arg1", "caller", "stack"}
		_, starts := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("Circle::area"), columns...))
		_, ends := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("Circle::area"), columns...))
		r.finish(success)
		for _, got := range []*record{starts.wait(t), ends.wait(t)} {
			if len(got.rows) != 100 || len(got.counts) > 0 {
				t.Errorf("%d rows, %v", len(got.rows), got.counts)
			}
			for _, row := range got.rows {
				want := "Circle::area;Group::total;measure;tries;main"
				if row[0].I%2 == 1 {
					want = "Circle::area;Group::total;tries;main"
				}
				stack := strings.Join(frames(row[2]), ";")
				if !strings.HasPrefix(stack+";", want+";") || row[1].S != "Group::total" {
					t.Fatalf("area(%d) is called by %q in %s\nwant %s", row[0].I, row[1].S, stack, want)
				}
			}
		}
	})
	t.Run("Go", func(t *testing.T) {
		target := testenv.CompileGo(t, "testdata/godepth")
		p := provider(t, Options{})
		r := run(t, target)
		columns := []string{"arg0", "caller", "stack"}
		_, leaves := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("main.leaf"), columns...))
		deep := testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("main.down"), columns...)
		deep.Filter = bound(testplan.Call("=", &plan.Call{Fn: "%", Args: []plan.Expr{&plan.Col{Name: "arg0"}, &plan.Const{V: types.Int(50)}}, T: types.Bigint}, &plan.Const{V: types.Int(0)}), deep.Out)
		deep.Settings.StackBytes = 64 << 10
		_, downs := start(t, p, deep)
		r.finish(success)
		got := map[string]int{}
		for i, row := range leaves.wait(t).rows {
			stack := frames(row[2])
			if len(stack) < 3 || row[1].S != stack[1] {
				t.Fatalf("row %d: %s is called by %s", i, stack, row[1].S)
			}
			got[strings.Join(stack, " ")]++
		}
		want := map[string]int{
			"main.leaf main.step main.worker main.main.func1 sync.(*WaitGroup).Go.func1 runtime.goexit": 600,
			"main.leaf main.lone main.far main.main.func1 sync.(*WaitGroup).Go.func1 runtime.goexit":    600,
			"main.leaf main.main.func1 sync.(*WaitGroup).Go.func1 runtime.goexit":                       600,
		}
		if diff := cmp.Diff(want, got); diff != "" || len(leaves.counts) > 0 {
			t.Error(diff, leaves.counts)
		}
		// Parts that were not copied, or are too deep, are reported as missing, and
		// nothing else.
		cut, told := 0, 0
		for _, row := range downs.wait(t).rows {
			stack, n := frames(row[2]), 3000-int(row[0].I)+1
			if stack[len(stack)-1] != "runtime.goexit" {
				cut++
			} else if got := tally(stack)["main.down"]; got != n || len(stack) != n+3 {
				t.Errorf("down(%d) is %d frames deep, of %d", row[0].I, got, len(stack))
			}
		}
		for why, n := range downs.counts {
			if !strings.Contains(why, "do not reach") {
				t.Errorf("%s: %d", why, n)
			}
			told += int(n)
		}
		if len(downs.rows) != 61 || cut == 0 || cut == 61 || told != cut {
			t.Errorf("%d rows, %d stacks that are cut, %v", len(downs.rows), cut, downs.counts)
		}
	})
}

// The stacks of programs that ended before their modules could be read are complete, and
// so are those of processes that only forked.
func TestStacksOfShortPrograms(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, `
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
NOINLINE int compare(const void *a, const void *b) { sink++; return *(int *)a - *(int *)b; }
NOINLINE long sorts(int n) { int list[2] = {2, n}; qsort(list, 2, sizeof *list, compare); return list[0]; }
int main(void) {
	sink += sorts(1);
	if (!fork()) { sink += sorts(3); _exit(0); }
	wait(0);
	return 0;
}`, "-O2")
	p := provider(t, Options{})
	const runs = 20
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{program}}, testplan.Named("compare"), "stack", "caller"))
	for range runs {
		if out, err := exec.Command(program).CombinedOutput(); err != nil {
			t.Fatalf("%s%v", out, err)
		}
	}
	src.Stop()
	got.wait(t)
	if len(got.rows) != 2*runs {
		t.Errorf("%d calls, want %d", len(got.rows), 2*runs)
	}
	for _, row := range got.rows {
		if names := frames(row[0]); !matches(names, "compare * sorts main", "__libc_start_call_main") || names[len(names)-1] != "_start" {
			t.Errorf("stack %v", names)
		}
		if !strings.Contains(row[1].S, "sort") {
			t.Errorf("caller %v", row[1])
		}
	}
	if len(got.counts)+len(got.lost) > 0 {
		t.Errorf("counted %v, lost %v", got.counts, got.lost)
	}
}
