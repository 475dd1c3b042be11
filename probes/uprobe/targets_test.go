package uprobe

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/internal/testplan"
)

// worker prints ready, waits, and calls work as often as its argument says.
const worker = prelude + `
NOINLINE long work(long n) { sink += n; return n; }
int main(int argc, char **argv) { ready(); for (long i = 0; i < atol(argv[1]); i++) work(i); }
`

// copyAs copies a program under another name, and so another comm.
func copyAs(t *testing.T, from, name string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(to, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return to
}

// hardLink makes another name of the same file.
func hardLink(t *testing.T, from, name string) string {
	t.Helper()
	to := filepath.Join(filepath.Dir(from), name)
	if err := os.Link(from, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestTargetOfSeveralPIDs(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, worker, "-O1")
	p := provider(t, Options{})
	one, two, other := run(t, target, "10"), run(t, target, "20"), run(t, target, "40")
	a, b := one.cmd.Process.Pid, two.cmd.Process.Pid
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, plan.Target{PIDs: []int{a, b}}, testplan.Named("work"), "pid"))
	other.finish(success)
	one.finish(success)
	select {
	case <-got.ended:
		t.Error("the stream ended with the first of two processes")
	case <-time.After(50 * time.Millisecond):
	}
	two.finish(success)
	if diff := cmp.Diff(map[int64]int{int64(a): 10, int64(b): 20}, tally(got.wait(t).ints("pid"))); diff != "" {
		t.Error(diff)
	}
}

// A name is that of the process's leader; later processes of that name are included, and
// those of other names are not, even if they run the same file.
func TestTargetByProcessName(t *testing.T) {
	testenv.NeedUprobes(t)
	target := copyAs(t, testenv.CompileCText(t, worker, "-O1"), "es-named-target-long") // longer than a comm
	alias := hardLink(t, target, "es-other")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		one, other := run(t, target, "10"), run(t, alias, "40")
		src, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, plan.Target{Processes: []string{"es-named-target-long"}}, testplan.Named("work"), "pid", "process"))
		later := run(t, target, "20")
		one.finish(success)
		later.finish(success)
		other.finish(success)
		src.Stop()
		if diff := cmp.Diff(map[string]int{"es-named-target": 30}, tally(got.wait(t).strings("process"))); diff != "" {
			t.Error(diff)
		}
	})
}

// An executable can be selected before any process runs it.
func TestTargetByExecutable(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, worker, "-O1")
	p := provider(t, Options{})
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{target}}, testplan.Named("work"), "pid", "exe"))
	for range 3 {
		run(t, target, "5").finish(success)
	}
	src.Stop()
	if n := len(tally(got.wait(t).ints("pid"))); n != 3 {
		t.Errorf("calls of %d processes, want 3", n)
	}
	if diff := cmp.Diff(map[string]int{target: 15}, tally(got.strings("exe"))); diff != "" {
		t.Error(diff)
	}
}

// A command is held until the query is armed: none of its calls is missed, including
// those of its constructors.
func TestTargetThatIsACommand(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
NOINLINE long work(long n) { sink += n; return n; }
__attribute__((constructor)) static void early(void) { for (int i = 0; i < 7; i++) work(i); }
int main(void) { for (int i = 0; i < 10; i++) work(i); return 3; }
`, "-O1")
	returnModes(t, func(t *testing.T, o Options) {
		p := provider(t, o)
		cmd, err := process.Launch([]string{target}, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Kill() })
		_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, plan.Target{PIDs: []int{cmd.PID()}, Command: true}, testplan.Named("work"), "arg0"))
		if err := cmd.Release(); err != nil {
			t.Fatal(err)
		}
		if n := len(got.wait(t).rows); n != 17 {
			t.Errorf("%d rows, want 17", n)
		}
		<-cmd.Wait()
		if cmd.ExitCode() != 3 {
			t.Errorf("exit code %d, want 3", cmd.ExitCode())
		}
	})
}

// A library is probed for the target only, although all processes share it.
func TestFunctionsOfALibrary(t *testing.T) {
	testenv.NeedUprobes(t)
	dir := t.TempDir()
	src := filepath.Join(dir, "lib.c")
	if err := os.WriteFile(src, []byte("volatile long lsink;\n__attribute__((noinline)) long lib_work(long n) { lsink += n; return n + 1; }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	lib := filepath.Join(dir, "libes_test.so")
	if out, err := exec.Command("gcc", "-O1", "-shared", "-fPIC", "-o", lib, src).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	target := copyAs(t, testenv.CompileCText(t, prelude+`
long lib_work(long);
int main(int argc, char **argv) { ready(); for (long i = 0; i < atol(argv[1]); i++) lib_work(i); }
`, "-O1", "-Wl,-rpath,"+dir, "-Wl,--no-as-needed", lib), "es-libuser")
	stranger := copyAs(t, target, "es-stranger")
	sel := testplan.Call("and", testplan.Named("lib_work"), testplan.Is(plan.SelectModule, "libes_test.so"))
	for _, c := range []struct {
		name    string
		target  func(r *running) plan.Target
		running bool
	}{
		{"pid", func(r *running) plan.Target { return r.target() }, true},
		{"process", func(*running) plan.Target { return plan.Target{Processes: []string{"es-libuser"}} }, true},
		{"executable", func(*running) plan.Target { return plan.Target{Exes: []string{target}} }, true},
		{"executable before it runs", func(*running) plan.Target { return plan.Target{Exes: []string{target}} }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			returnModes(t, func(t *testing.T, o Options) {
				p := provider(t, o)
				var r *running
				if c.running {
					r = run(t, target, "30")
				}
				other := run(t, stranger, "40")
				src, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, c.target(r), sel, "module", "process", "exe"))
				if !c.running {
					r = run(t, target, "30")
				}
				other.finish(success)
				r.finish(success)
				src.Stop()
				got.wait(t)
				if diff := cmp.Diff(map[string]int{"libes_test.so": 30}, tally(got.strings("module"))); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(map[string]int{"es-libuser": 30}, tally(got.strings("process"))); diff != "" {
					t.Error(diff)
				}
				for _, row := range got.rows {
					// The process may have ended before its last events are read.
					if exe := row[2]; !exe.IsNull && exe.S != target {
						t.Fatalf("exe %q, want %s or NULL", exe.S, target)
					}
				}
			})
		})
	}
}

// Go's stacks grow and move: returns are not trapped, entries counted exactly.
func TestGoFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileGo(t, "testdata/goprog")
	p := provider(t, Options{})
	r := run(t, target)
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("main.deep", "main.(*tree).grow", "main.sum"),
		"function_name", "class", "arg0", "arg1", "arg2", "arg3"))
	r.finish(success)
	want := map[string]int{"main.deep": 20 * 500, "main.(*tree).grow": 1<<10 - 1, "main.sum": 100}
	if diff := cmp.Diff(want, tally(got.wait(t).strings("function_name"))); diff != "" {
		t.Error(diff)
	}
	names, classes := got.strings("function_name"), got.strings("class")
	next := int64(0)
	for i, name := range names {
		if name == "main.(*tree).grow" && classes[i] != "main.tree" {
			t.Fatalf("class of %s is %q", name, classes[i])
		}
		if name != "main.sum" {
			continue
		}
		args := []int64{got.ints("arg0")[i], got.ints("arg1")[i], got.ints("arg2")[i], got.ints("arg3")[i]}
		if diff := cmp.Diff([]int64{next, 2, 3, 4}, args); diff != "" {
			t.Fatal("arguments of main.sum:", diff)
		}
		next++
	}
	t.Run("return traps are refused", func(t *testing.T) {
		spec := testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Named("main.sum"), "duration")
		spec.Settings.Returns = plan.TrapReturns
		_, err := p.Prepare(t.Context(), spec)
		refused(t, err, "cannot observe the return of main.sum: ", "function_start works")
	})
}

// C++ functions are found demangled or mangled; a class is a column.
func TestCPlusPlusFunctions(t *testing.T) {
	testenv.NeedUprobes(t)
	src := filepath.Join(t.TempDir(), "target.cc")
	text := prelude + `
struct Account {
	long balance = 0;
	NOINLINE void deposit(long n) { balance += n; sink++; }
	NOINLINE void deposit(double n) { balance += (long)n; sink++; }
};
namespace bank { NOINLINE long audit(long n) { if (n > 90) throw n; sink++; return n; } }
int main() {
	ready(); Account a;
	for (long i = 0; i < 100; i++) { a.deposit(i); if (i % 2) a.deposit(1.5); try { bank::audit(i); } catch (long) {} }
}
`
	if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := testenv.CompileC(t, src, "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	_, demangled := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("Account::deposit", "bank::audit"), "function_name", "class", "arg1"))
	_, mangled := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("_ZN7Account7depositEl"), "function_name", "class", "arg1"))
	_, class := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Is(plan.SelectClass, "Account"), "function_name"))
	r.finish(success)
	if diff := cmp.Diff(map[string]int{"Account::deposit": 150, "bank::audit": 100}, tally(demangled.wait(t).strings("function_name"))); diff != "" {
		t.Error("demangled:", diff)
	}
	if diff := cmp.Diff(map[string]int{"_ZN7Account7depositEl": 100}, tally(mangled.wait(t).strings("function_name"))); diff != "" {
		t.Error("mangled:", diff)
	}
	if diff := cmp.Diff(map[string]int{"Account": 100}, tally(mangled.strings("class"))); diff != "" {
		t.Error("class of mangled:", diff)
	}
	if n := len(class.wait(t).rows); n != 150 {
		t.Errorf("by class: %d rows, want 150", n)
	}
	spec := testplan.Acquire(catalog.FunctionDuration, plan.Target{Exes: []string{target}}, testplan.Named("bank::audit"), "duration")
	spec.Settings.Returns = plan.TrapReturns
	_, err := p.Prepare(t.Context(), spec)
	refused(t, err, "cannot observe the return of bank::audit: ", "function_start works")
}

// The columns that the catalog lists are those that rows can have.
func TestEveryColumn(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, worker, "-O1")
	for stream, table := range decode.Streams {
		fields := table.Fields()
		if stream == catalog.Allocation || stream == catalog.Deallocation {
			continue // of allocators' functions
		}
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, target, "3")
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.Name
			}
			_, got := start(t, p, testplan.Acquire(stream, r.target(), testplan.Named("work"), names...))
			r.finish(success)
			want := 3
			if stream == catalog.FunctionCall {
				want = 6 // entries and returns
			}
			if n := len(got.wait(t).rows); n != want {
				t.Fatalf("%d rows, want %d", n, want)
			}
			for i, v := range got.rows[2] {
				// A C function has no object, no class and no goroutine; the process is in no pod.
				none := calls.ColumnByName[names[i]].IsReceiver() || slices.Contains([]string{"class_lineage", "goroutine", "pod", "namespace", "labels"}, names[i])
				if v.Type != fields[i].Type || v.IsNull != none {
					t.Errorf("%s is %+v, want a %s", names[i], v, fields[i].Type)
				}
			}
			if fields[0].Name != "timestamp" || fields[0].Type != types.Timestamp {
				t.Error("the event's time is not the first column")
			}
		})
	}
}
