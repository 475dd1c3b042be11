package uprobe

import (
	"cmp"
	"slices"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// interval is a call as reported by a row. whose is its thread or goroutine.
type interval struct {
	function             string
	whose, start, end    int64
	self, want, duration int64
}

// intervals reads rows; whose is the column that identifies the thread or goroutine.
func intervals(r *record, whose string) []interval {
	ids, starts, durations, self := r.ints(whose), r.ints("start_time"), r.ints("duration"), r.ints("self_time")
	var out []interval
	for i, name := range r.strings("function_name") {
		out = append(out, interval{name, ids[i], starts[i], starts[i] + durations[i], self[i], durations[i], durations[i]})
	}
	return out
}

// checkSelf computes the expected self_time from the nesting of calls, and checks that
// the sum of all is the time of the outermost calls.
func checkSelf(t *testing.T, calls []interval) {
	t.Helper()
	slices.SortFunc(calls, func(a, b interval) int {
		return cmp.Or(cmp.Compare(a.whose, b.whose), cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	var around []*interval
	var self, roots int64
	for i := range calls {
		c := &calls[i]
		for len(around) > 0 && (around[len(around)-1].whose != c.whose || around[len(around)-1].end <= c.start) {
			around = around[:len(around)-1]
		}
		if len(around) > 0 {
			outer := around[len(around)-1]
			if c.end > outer.end {
				t.Fatalf("%s lies across the end of %s", c.function, outer.function)
			}
			outer.want -= c.duration
		} else {
			roots += c.duration
		}
		self += c.self
		around = append(around, c)
	}
	for _, c := range calls {
		if c.self != c.want {
			t.Errorf("self_time of a call of %s is %d, want %d of %d", c.function, c.self, c.want, c.duration)
		}
	}
	if self != roots {
		t.Errorf("self_time is %d in all, outermost calls took %d", self, roots)
	}
}

var selfColumns = []string{"function_name", "tid", "start_time", "duration", "self_time"}

// Every nanosecond of the outermost call is in the self time of exactly one call: with
// recursion, tail calls, siblings, and calls left by longjmp.
func TestSelfTime(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
#include <setjmp.h>
static __thread jmp_buf env;
NOINLINE long leaf(long n) { for (long i = 0; i < n; i++) sink += i; return n; }
NOINLINE long tail(long n) { sink += n; return leaf(n); }
NOINLINE long fib(long n) { if (n < 2) return leaf(n); long r = fib(n - 1); r += fib(n - 2); sink += r; return r; }
NOINLINE long leaves(long n) { long r = leaf(100) + tail(50); if (n == 0) longjmp(env, 1); r += leaves(n - 1); sink += r; return r; }
NOINLINE long tries(long n) { long r = leaf(10); if (!setjmp(env)) r += leaves(n); return r + leaf(20); }
NOINLINE long root(long n) { return leaf(n) + fib(8) + tail(n) + tries(3) + leaf(n); }
static void *work(void *p) { for (int i = 0; i < 20; i++) root(1000); return 0; }
int main(void) {
	ready();
	pthread_t t;
	pthread_create(&t, 0, work, 0);
	work(0);
	pthread_join(t, 0);
	return 0;
}`, "-O1", "-foptimize-sibling-calls", "-pthread")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("root", "leaf", "tail", "fib", "tries", "leaves"), selfColumns...))
		r.finish(success)
		calls := intervals(got.wait(t), "tid")
		n := tally(got.strings("function_name"))
		// 34 calls of leaf by fib, 8 by leaves, a half of these by tail, 2 by tries and 3 by root.
		if n["root"] != 40 || n["leaf"] != 40*47 || n["tail"] != 40*5 || n["fib"] != 40*67 || n["tries"] != 40 || n["leaves"] != 0 || got.counts["unfinished"] != 160 {
			t.Errorf("%v, %v", n, got.counts)
		}
		checkSelf(t, calls)
	})
}

// Exceptions leave calls early; their own time is added to their caller's.
func TestSelfTimeWithExceptions(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, prelude+`
NOINLINE long leaf(long n) { for (long i = 0; i < n; i++) sink += i; return n; }
NOINLINE long down(long n) { long r = leaf(50); if (n == 0) throw n; return r + down(n - 1) + leaf(n); }
NOINLINE long round_(long n) { long r = leaf(n); try { r += down(9); } catch (long) { r += leaf(1); } return r + leaf(2); }
int main() { ready(); for (long i = 0; i < 100; i++) round_(i); return 0; }
`, "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "down", "round_"), selfColumns...))
	r.finish(success)
	calls := intervals(got.wait(t), "tid")
	if n := tally(got.strings("function_name")); n["round_"] != 100 || n["leaf"] != 1300 || got.counts["unfinished"] != 1000 {
		t.Errorf("%v, %v", n, got.counts)
	}
	checkSelf(t, calls)
}

// A goroutine's calls are separated from those of others on its threads, and calls left
// by Goexit and panics are not counted for any caller.
func TestSelfTimeInGo(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/godepth")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("main.worker", "main.step", "main.leaf", "main.lone", "main.catches", "main.throws", "main.down"),
		append(selfColumns, "depth", "arg0")...))
	r.finish(success)
	self, roots, deepest := int64(0), int64(0), int64(0)
	depth := got.wait(t).ints("depth")
	for i, c := range intervals(got, "tid") {
		self += c.self
		if depth[i] == 0 {
			roots += c.duration
		}
		deepest = max(deepest, depth[i])
		if c.self < 0 || c.self > c.duration {
			t.Fatalf("self_time of a call of %s is %d of %d", c.function, c.self, c.duration)
		}
	}
	// Calls completed by a goroutine that ended early are in no call that returned; here
	// there are none.
	if self != roots || deepest != 3000 {
		t.Errorf("self_time is %d in all, outermost calls took %d; the deepest call is %d", self, roots, deepest)
	}
}

// Calls count for the self time of others even if they are not rows.
func TestSelfTimeOfFiltered(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(long n) { for (long i = 0; i < 100; i++) sink += i; return n; }
NOINLINE long inner(long n) { return leaf(n) + leaf(n + 1); }
NOINLINE long root(long n) { return inner(n) + leaf(n); }
int main(void) { ready(); for (int i = 0; i < 200; i++) root(i % 2); return 0; }`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		r := run(t, target)
		names := testplan.Named("root", "inner", "leaf")
		_, all := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), names, append(selfColumns, "depth")...))
		// Filtered at the entry, and at the return.
		early := testplan.Acquire(catalog.FunctionDuration, r.target(), names, append(selfColumns, "depth")...)
		early.Filter = bound(testplan.Call("=", &plan.Col{Name: "depth"}, &plan.Const{V: types.Int(0)}), early.Out)
		_, roots := start(t, p, early)
		late := testplan.Acquire(catalog.FunctionDuration, r.target(), names, append(selfColumns, "depth")...)
		late.Filter = bound(testplan.Call("<", &plan.Col{Name: "self_time"}, &plan.Col{Name: "duration"}), late.Out)
		_, callers := start(t, p, late)
		r.finish(success)
		calls := intervals(all.wait(t), "tid")
		checkSelf(t, calls)
		for _, some := range []*record{roots.wait(t), callers.wait(t)} {
			want := map[string]int{"root": 200}
			if some == callers {
				want["inner"] = 200
			}
			if n := tally(some.strings("function_name")); len(n) != len(want) || n["root"] != want["root"] || n["inner"] != want["inner"] {
				t.Errorf("%v, want %v", n, want)
			}
			for _, c := range intervals(some, "tid") {
				if c.self <= 0 || c.self >= c.duration {
					t.Errorf("self_time of a call of %s is %d of %d", c.function, c.self, c.duration)
				}
			}
		}
	})
}
