package uprobe

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
	"endoscope/probes/uprobe/resolve"
)

// depths counts rows by function and depth.
func depths(r *record) map[string]int {
	out := map[string]int{}
	depth := r.ints("depth")
	for i, name := range r.strings("function_name") {
		out[fmt.Sprintf("%s %d", name, depth[i])]++
	}
	return out
}

// Calls of a goroutine nest among themselves, on any thread; calls left by a panic or
// Goexit enclose nothing afterwards.
func TestDepthInGo(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/godepth")
	names := testplan.Named("main.worker", "main.step", "main.leaf", "main.lone", "main.catches", "main.throws")
	p := provider(t, Options{})
	r := run(t, target)
	_, starts := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), names, "function_name", "depth"))
	_, ends := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), names, "function_name", "depth"))
	_, deep := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("main.down"), "depth", "arg0"))
	r.finish(success)
	const half = 600 // of the goroutines
	want := map[string]int{
		"main.worker 0": half, "main.step 1": half, "main.leaf 2": half,
		"main.lone 0": half, "main.leaf 1": half,
		"main.catches 0": half, "main.throws 1": half, "main.throws 2": half, "main.throws 3": half, "main.throws 4": half,
		"main.leaf 0": half,
	}
	if diff := cmp.Diff(want, depths(starts.wait(t))); diff != "" {
		t.Error("entries:", diff)
	}
	want["main.worker 0"], want["main.step 1"] = half/2, half/2
	for n := range 4 {
		delete(want, fmt.Sprintf("main.throws %d", n+1))
	}
	if diff := cmp.Diff(want, depths(ends.wait(t))); diff != "" {
		t.Error("returns:", diff)
	}
	if diff := cmp.Diff(map[string]uint64{"unfinished": half + 4*half}, ends.counts); diff != "" {
		t.Error(diff)
	}
	depth := deep.wait(t).ints("depth")
	if len(depth) != 3001 {
		t.Fatalf("%d rows of down, want 3001", len(depth))
	}
	for i, n := range deep.ints("arg0") {
		if depth[i] != 3000-n {
			t.Fatalf("down(%d) is at depth %d", n, depth[i])
		}
	}
}

// Calls left by exceptions enclose nothing afterwards. Traps would be safe in a library
// of the program, but depth counts the calls of both.
func TestDepthInCPlusPlus(t *testing.T) {
	testenv.NeedUprobes(t)
	target := compileCC(t, prelude+`
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long down(long n) { if (n == 0) throw n; return down(n - 1) + leaf(n); }
NOINLINE long round_(long n) { long r = leaf(n); try { r += down(9); } catch (long) { r += leaf(1); } return r + leaf(2); }
NOINLINE long free_(void *p) { free(p); return leaf(0); }
int main() { ready(); for (long i = 0; i < 100; i++) { round_(i); free_(malloc(10)); } return 0; }
`, "-O1")
	want := map[string]int{"round_ 0": 100, "leaf 1": 400, "free_ 0": 100}
	p := provider(t, Options{})
	r := run(t, target)
	_, ends := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "down", "round_", "free_"), "function_name", "depth"))
	_, starts := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("leaf", "down", "round_", "free_"), "function_name", "depth"))
	r.finish(success)
	if diff := cmp.Diff(want, depths(ends.wait(t))); diff != "" || ends.counts["unfinished"] != 1000 {
		t.Error("returns:", diff, ends.counts)
	}
	for n := range 10 {
		want[fmt.Sprintf("down %d", n+1)] = 100
	}
	if diff := cmp.Diff(want, depths(starts.wait(t))); diff != "" {
		t.Error("entries:", diff)
	}
}

// One query may trap some returns and observe others at exits. Where it reads depth, all
// are observed in the same way.
func TestTrapsAndExitsTogether(t *testing.T) {
	testenv.NeedUprobes(t)
	// A function with the name of an unwinding function is not trapped.
	target := testenv.CompileCText(t, prelude+`
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long pthread_unwind(long n) { sink++; return leaf(n) + leaf(n); }
NOINLINE long outer(long n) { sink++; return pthread_unwind(n) + 1; }
int main(void) { ready(); for (int i = 0; i < 100; i++) outer(i); return 0; }
`, "-O1")
	for _, depth := range []bool{false, true} {
		cols := []string{"function_name", "arg0", "retval"}
		want := map[string]int{"entry+return (multi)": 2, "entry+exits (1)": 1}
		if depth {
			cols = append(cols, "depth")
			want = map[string]int{"entry+exits (1)": 3}
		}
		p := provider(t, Options{Links: "multi"})
		r := run(t, target)
		src, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "pthread_unwind", "outer"), cols...))
		kinds := map[string]int{}
		for _, s := range src.Info().Sites {
			if s.Kind != resolve.KindExit && s.Kind != resolve.KindLandmark {
				kinds[s.Kind]++
			}
		}
		if diff := cmp.Diff(want, kinds); diff != "" {
			t.Error(diff)
		}
		r.finish(success)
		got.wait(t)
		if diff := cmp.Diff(map[string]int{"leaf": 200, "pthread_unwind": 100, "outer": 100}, tally(got.strings("function_name"))); diff != "" {
			t.Error(diff)
		}
		for i, row := range got.rows {
			name, arg, value := row[0].S, row[1].I, row[2].I
			if value != map[string]int64{"leaf": arg, "pthread_unwind": 2 * arg, "outer": 2*arg + 1}[name] {
				t.Errorf("row %d: %s(%d) = %d", i, name, arg, value)
			}
		}
		if depth {
			if diff := cmp.Diff(map[string]int{"outer 0": 100, "pthread_unwind 1": 100, "leaf 2": 200}, depths(got)); diff != "" {
				t.Error(diff)
			}
		}
	}
}
