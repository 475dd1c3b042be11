package uprobe

import (
	"os"
	"testing"

	"endoscope/planner/plan"
	"endoscope/probes/testenv"
)

// An executable that is replaced goes on to be observed where it runs; that its
// successor is not, is told.
func TestExecutableReplaced(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, worker, "-O1")
	for _, replaced := range []bool{false, true} {
		exe, next := copyAs(t, program, "program"), copyAs(t, program, "program")
		p := provider(t, Options{})
		src, got := start(t, p, acquisition(FunctionStart, plan.Target{Exes: []string{exe}}, named("work"), "pid"))
		before := run(t, exe, "5")
		if replaced {
			if err := os.Rename(next, exe); err != nil {
				t.Fatal(err)
			}
		}
		before.finish(success)
		run(t, exe, "7").finish(success)
		src.Stop()
		want := 12
		if replaced {
			want = 5
		}
		if n := len(got.wait(t).rows); n != want {
			t.Errorf("replaced: %v: %d calls, want %d", replaced, n, want)
		}
		if told := got.lost["calls of processes that have executed "+exe+" since it was replaced"] == 1; told != replaced || got.hasLost() != replaced {
			t.Errorf("replaced: %v: lost %v", replaced, got.lost)
		}
	}
}
