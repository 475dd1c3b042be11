package uprobe

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// A replaced executable is still observed where it runs. It is reported while the query
// runs that the new file is not observed.
func TestExecutableReplaced(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, worker, "-O1")
	for _, replaced := range []bool{false, true} {
		exe, next := copyAs(t, program, "program"), copyAs(t, program, "program")
		p := provider(t, Options{})
		src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{exe}}, testplan.Named("work"), "pid"))
		before := run(t, exe, "5")
		if replaced {
			if err := os.Rename(next, exe); err != nil {
				t.Fatal(err)
			}
		}
		before.finish(success)
		run(t, exe, "7").finish(success)
		testenv.Until(t, "the replaced file is counted", func() bool { return !replaced || len(got.causes()) > 0 })
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

// A process that writes into a probed file finds it without probes: the new contents run
// unchanged, and it is reported that they are not observed.
func TestExecutableWrittenInto(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, worker, "-O1")
	next := testenv.CompileCText(t, "int main(int n, char **a) { volatile long x[4000]; for (int i = 0; i < 4000; i++) x[i] = i; return x[7] - 7; }", "-O3", "-funroll-all-loops", "-fcf-protection=full")
	text, err := os.ReadFile(next)
	if err != nil {
		t.Fatal(err)
	}
	for _, links := range []string{"", "perf"} {
		exe := copyAs(t, program, "program")
		p := provider(t, Options{Links: links})
		src, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{exe}}, testplan.Named("work", "main"), "pid"))
		run(t, exe, "5").finish(success)
		before := time.Now()
		f, err := os.OpenFile(exe, os.O_WRONLY|os.O_TRUNC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("who wrote into it waited for %v", time.Since(before))
		if _, err := f.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if out, err := exec.Command(exe).CombinedOutput(); err != nil {
				t.Fatalf("%s%v", out, err)
			}
		}
		src.Stop()
		if n := len(got.wait(t).rows); n < 6 {
			t.Errorf("%d calls", n)
		}
		if len(got.lost) != 1 || got.lost["calls in "+exe+" from when it was opened for writing"] != 1 {
			t.Errorf("lost %v", got.lost)
		}
	}
}

// A file that is open for writing is not probed.
func TestExecutableBeingWritten(t *testing.T) {
	testenv.NeedUprobes(t)
	exe := copyAs(t, testenv.CompileCText(t, worker, "-O1"), "program")
	f, err := os.OpenFile(exe, os.O_WRONLY|syscall.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := provider(t, Options{})
	spec := testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{exe}}, testplan.Named("work"), "pid")
	src, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Stop()
	err = src.Start(t.Context(), newRecord(spec), probes.Options{})
	if want := "cannot probe " + exe + ": it is open for writing: probes could be set in changed code (hint: run the query again when it is closed)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// A query made after a probed file was opened for writing does not share the source of
// an earlier query, which observes nothing any more; and functions looked up before a
// write are not probed.
func TestExecutableProbedAgain(t *testing.T) {
	testenv.NeedUprobes(t)
	exe := copyAs(t, testenv.CompileCText(t, worker, "-O1"), "program")
	p := provider(t, Options{})
	spec := testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{exe}}, testplan.Named("work"), "pid")
	open := func() *os.File {
		f, err := os.OpenFile(exe, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	before, none := start(t, p, spec)
	open().Close()
	after, got := start(t, p, spec)
	if before.Info().Identity == after.Info().Identity {
		t.Error("they would share what is observed no more")
	}
	run(t, exe, "5").finish(success)
	if n := len(p.Probes()); n != 1 {
		t.Errorf("%d functions are probed", n)
	}
	before.Stop()
	after.Stop()
	if n, m := len(none.wait(t).rows), len(got.wait(t).rows); n != 0 || m != 5 || got.hasLost() || !none.hasLost() {
		t.Errorf("%d and %d calls, lost %v and %v", n, m, none.lost, got.lost)
	}
	late, err := p.Prepare(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Stop()
	f := open()
	if _, err := f.WriteString("more"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := late.Start(t.Context(), newRecord(spec), probes.Options{}); err == nil || !strings.Contains(err.Error(), errWritten.Error()) {
		t.Errorf("%v", err)
	}
}
