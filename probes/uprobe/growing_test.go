package uprobe

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// plugin is a library; its constructor is its first call.
const plugin = `
volatile long total;
__attribute__((noinline)) long plug_run(long n) { total += n; return n; }
__attribute__((constructor)) static void first(void) { plug_run(1); }
`

// host loads, calls and unloads a library on command.
const host = prelude + `
#include <dlfcn.h>
int main(void) {
	char line[4096], path[4000];
	void *lib = 0;
	long n;
	ready();
	while (fgets(line, sizeof line, stdin)) {
		if (sscanf(line, "load %3999s", path) == 1) {
			if (!(lib = dlopen(path, RTLD_NOW))) { puts(dlerror()); return 1; }
		} else if (sscanf(line, "call %ld", &n) == 1) {
			long (*run)(long) = (long (*)(long))dlsym(lib, "plug_run");
			while (n--) run(n);
		} else if (!strncmp(line, "close", 5)) {
			dlclose(lib);
		} else if (!strncmp(line, "end", 3)) {
			return 0;
		}
		puts("done");
		fflush(stdout);
	}
}
`

func compilePlugin(t *testing.T) string {
	return copyAs(t, testenv.CompileCText(t, plugin, "-O1", "-shared", "-fPIC"), "libplug.so")
}

// tell sends a command to a host and waits until it has been executed.
func (r *running) tell(format string, args ...any) {
	r.t.Helper()
	fmt.Fprintf(r.in, format+"\n", args...)
	if line := r.line(); line != "done" {
		r.t.Fatalf("the target said %q", line)
	}
}

// probed waits until p probes n sites.
func probed(t *testing.T, p *Provider, n int) {
	t.Helper()
	testenv.UntilNil(t, fmt.Sprintf("%d places are probed", n), func() error {
		if now := len(p.Probes()); now != n {
			return fmt.Errorf("%d are", now)
		}
		return nil
	})
}

// A library is probed when it is loaded, and still after it was unloaded and loaded
// again; so is another file loaded in its place. Calls before it was probed are reported
// as missing.
func TestLibraryLoadedLater(t *testing.T) {
	testenv.NeedUprobes(t)
	program, library := testenv.CompileCText(t, host, "-O1", "-ldl"), compilePlugin(t)
	for _, stream := range []string{catalog.FunctionStart, catalog.FunctionDuration} {
		t.Run(stream, func(t *testing.T) {
			p := provider(t, Options{})
			r := run(t, program)
			r.step()
			src, got := start(t, p, testplan.Acquire(stream, r.target(), testplan.InPlugin(), "timestamp", "module"))
			if notices := strings.Join(src.Info().Notices, "\n"); !strings.Contains(notices, "libplug.so is not loaded: its functions are monitored from when it is") {
				t.Errorf("the notices are %q", notices)
			}
			r.tell("load %s", library)
			probed(t, p, 1)
			r.tell("call 100")
			r.tell("close")
			r.tell("load %s", library)
			r.tell("call 50")
			r.tell("close")
			r.tell("load %s", copyAs(t, library, "libplug.so"))
			probed(t, p, 2)
			r.tell("call 30")
			fmt.Fprintln(r.in, "end")
			r.finish(success)
			got.wait(t)
			if n := len(got.rows); n < 181 || n > 183 { // constructors: the second was probed, the others may have been
				t.Errorf("%d rows, want 100 + 50 + 30 and one to three of constructors", n)
			}
			if got.late > 0 {
				t.Errorf("%d rows came behind a watermark", got.late)
			}
			gaps := 0
			for cause, n := range got.lost {
				if strings.Contains(cause, "calls in libplug.so from its mapping until it was probed, a gap of") {
					gaps += int(n)
				} else {
					t.Errorf("lost %d: %s", n, cause)
				}
			}
			if gaps != 2 {
				t.Errorf("%d gaps, want one for each file: %v", gaps, got.lost)
			}
		})
	}
}

// A library that the loader will find on its usual search path is probed in its file:
// nothing is missing, not even its constructor.
func TestLibraryExpected(t *testing.T) {
	testenv.NeedUprobes(t)
	library := compilePlugin(t)
	program := testenv.CompileCText(t, host, "-O1", "-ldl", "-Wl,-rpath,"+filepath.Dir(library))
	p := provider(t, Options{})
	r := run(t, program)
	r.step()
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.InPlugin(), "timestamp"))
	r.tell("load libplug.so")
	r.tell("call 100")
	fmt.Fprintln(r.in, "end")
	r.finish(success)
	if got.wait(t); len(got.rows) != 101 || len(got.lost) > 0 {
		t.Errorf("%d rows, want 101; lost %v", len(got.rows), got.lost)
	}
}

// Libraries loaded by later processes of an executable are probed, even in a process
// with its own root, its own copies of all files and its own mounts.
func TestLibraryLoadedInLaterProcesses(t *testing.T) {
	testenv.NeedUprobes(t)
	program, library := testenv.CompileCText(t, host, "-O1", "-ldl"), compilePlugin(t)
	p := provider(t, Options{})
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{program}}, testplan.InPlugin(), "timestamp", "pid", "exe"))
	r := run(t, program)
	r.step()
	r.tell("load %s", library)
	probed(t, p, 1)
	r.tell("call 10")
	again := run(t, program) // the file is already probed for all
	again.step()
	again.tell("load %s", library)
	again.tell("call 20")
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := tally(got.ints("pid")); n[int64(r.cmd.Process.Pid)] < 10 || n[int64(again.cmd.Process.Pid)] != 21 {
		t.Errorf("rows by process: %v, want 10 (and perhaps its constructor) and 21", n)
	}
}

// In a container the library is another file at the same path; it is found in the root
// of the process.
func TestLibraryLoadedInContainer(t *testing.T) {
	testenv.NeedUprobes(t)
	testenv.NeedRoot(t)
	program, library := testenv.CompileCText(t, host, "-O1", "-ldl"), compilePlugin(t)
	root := t.TempDir()
	for _, file := range append(loadedBy(t, program), program) {
		put(t, file, filepath.Join(root, file))
	}
	put(t, program, filepath.Join(root, "/app"))
	put(t, library, filepath.Join(root, "/plugins/libplug.so"))
	p := provider(t, Options{})
	r := runCommand(t, &exec.Cmd{Path: "/app", Args: []string{"/app"}, Dir: "/", SysProcAttr: &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWNS}})
	r.step()
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.InPlugin(), "timestamp", "module"))
	r.tell("load /plugins/libplug.so")
	probed(t, p, 1)
	r.tell("call 10")
	fmt.Fprintln(r.in, "end")
	r.finish(success)
	if got.wait(t); len(got.rows) < 10 || len(got.rows) > 11 {
		t.Errorf("%d rows, want 10, and perhaps the constructor's", len(got.rows))
	}
}

// loadedBy returns the files that a program has mapped when it runs.
func loadedBy(t *testing.T, program string) (files []string) {
	t.Helper()
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(string(out)) {
		if filepath.IsAbs(field) {
			files = append(files, field)
		}
	}
	return files
}

// put copies a file, and creates its directories.
func put(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	testenv.CopyFile(t, from, to)
}

// A name that no library can have is an error; a library that is not loaded may be a
// mistake, and is reported.
func TestModuleThatIsNotLoaded(t *testing.T) {
	testenv.NeedUprobes(t)
	p := provider(t, Options{})
	r := run(t, testenv.CompileCText(t, host, "-O1", "-ldl"))
	of := func(module string) *plan.Acquire {
		return testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Call("and", testplan.Named("malloc"), testplan.Is(plan.SelectModule, module)), "timestamp")
	}
	if _, err := p.Prepare(context.Background(), of("hots")); err == nil || !strings.Contains(err.Error(), "no module of the target satisfies") {
		t.Errorf("a module that is no library: %v", err)
	}
	src, err := p.Prepare(context.Background(), of("libc.so.7"))
	if err != nil {
		t.Fatal(err)
	}
	if notices := strings.Join(src.Info().Notices, "\n"); !strings.Contains(notices, "libc.so.7 is not loaded") || !strings.Contains(notices, "loaded is libc.so.6") {
		t.Errorf("the notices are %q", notices)
	}
	src.Stop()
	// Modules loaded with the program for good are not waited for.
	src, err = p.Prepare(context.Background(), of("libc.so.6"))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := src.(*source); !ok {
		t.Errorf("a library that every process needs is waited for: %T", src)
	}
	src.Stop()
	// Where calls nest, functions are added to those that are probed, whose programs
	// support no further classes then.
	spec := testplan.Acquire(catalog.FunctionCall, r.target(), testplan.Call("and", testplan.Named("malloc"), testplan.Is(plan.SelectModule, "libc.so.7")), "timestamp", "receiver_class")
	if _, err := p.Prepare(context.Background(), spec); err == nil {
		t.Error("a sequence with classes waits for a module")
	}
	// A newly mapped library without such a function is reported.
	library := compilePlugin(t)
	r.step()
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Call("and", testplan.Named("plug_rum"), testplan.Is(plan.SelectModule, "libplug.so")), "timestamp"))
	r.tell("load %s", library)
	testenv.Until(t, "the library without such a function is counted", func() bool {
		return hasCounted(got, "no function named plug_rum in libplug.so; did you mean plug_run?")
	})
	fmt.Fprintln(r.in, "end")
	r.finish(success)
	got.wait(t)
}

// A library that could not be probed is tried again when any process maps it next: the
// cause may be gone.
func TestLibraryTriedAgain(t *testing.T) {
	testenv.NeedUprobes(t)
	program, library := testenv.CompileCText(t, host, "-O1", "-ldl"), compilePlugin(t)
	p := provider(t, Options{MaxProbes: 1})
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, plan.Target{Exes: []string{program}}, testplan.InPlugin(), "timestamp", "pid"))
	r := run(t, program)
	other, _ := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("main"), "timestamp"))
	r.step()
	r.tell("load %s", library)
	refused := func() bool {
		return hasLost(got, "libplug.so was loaded and is not probed: 2 functions would be probed")
	}
	testenv.Until(t, "the library that is not probed is counted", refused)
	if err := other.Stop(); err != nil {
		t.Fatal(err)
	}
	again := run(t, program)
	again.step()
	again.tell("load %s", library)
	probed(t, p, 1)
	again.tell("call 20")
	r.tell("call 10") // the file is already probed for all
	if err := src.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := tally(got.ints("pid")); n[int64(r.cmd.Process.Pid)] != 10 || n[int64(again.cmd.Process.Pid)] < 20 {
		t.Errorf("rows by process: %v, want 10 and 20 (and perhaps its constructor)", n)
	}
}

// A library without such a function is examined again once its file has changed: its
// inode may have been reused.
func TestLibraryChanged(t *testing.T) {
	testenv.NeedUprobes(t)
	program, library := testenv.CompileCText(t, host, "-O1", "-ldl"), compilePlugin(t)
	lacking := copyAs(t, testenv.CompileCText(t, "int nothing;", "-shared", "-fPIC"), "libplug.so")
	p := provider(t, Options{})
	r := run(t, program)
	r.step()
	_, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.InPlugin(), "timestamp"))
	r.tell("load %s", lacking)
	testenv.Until(t, "the library without the function is counted", func() bool {
		return hasCounted(got, "no function named plug_run in libplug.so; SHOW FUNCTIONS LIKE '%' lists what can be monitored")
	})
	r.tell("close")
	text, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lacking, text, 0o755); err != nil { // in place
		t.Fatal(err)
	}
	r.tell("load %s", lacking)
	probed(t, p, 1)
	r.tell("call 10")
	fmt.Fprintln(r.in, "end")
	r.finish(success)
	if got.wait(t); len(got.rows) < 10 || len(got.rows) > 11 {
		t.Errorf("%d rows, want 10, and perhaps the constructor's", len(got.rows))
	}
}

// hasLost reports whether there is a loss whose cause has this prefix.
func hasLost(r *record, cause string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.lost {
		if strings.HasPrefix(c, cause) {
			return true
		}
	}
	return false
}

func hasCounted(r *record, cause string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts[cause] > 0
}
