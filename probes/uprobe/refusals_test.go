package uprobe

import (
	"errors"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// refused checks the prefixes of an error's message and hint.
func refused(t *testing.T, err error, msg, hint string) *plan.Error {
	t.Helper()
	var e *plan.Error
	if !errors.As(err, &e) {
		t.Fatalf("not refused: %v", err)
	}
	if !strings.HasPrefix(e.Msg, msg) || !strings.HasPrefix(e.Hint, hint) {
		t.Errorf("refused with\n\t%s\n\thint: %s\nwant\n\t%s...\n\thint: %s...", e.Msg, e.Hint, msg, hint)
	}
	return e
}

const manyNames = prelude + `
NOINLINE long processCommand(long n) { sink += n; return n; }
NOINLINE long processCommandAndReset(long n) { sink += n; return n; }
int main(int argc, char **argv) { ready(); return processCommand(0) + processCommandAndReset(0); }
`

func TestRefusals(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, manyNames, "-O1")
	exe := plan.Target{Exes: []string{target}}
	stripped := testenv.CompileCText(t, manyNames, "-O1", "-s")
	at := func(name string) plan.Expr {
		return testplan.Call("=", testplan.SelectColumn(plan.SelectName), &plan.Const{V: types.Str(name), Start: 40, Stop: 54})
	}
	for _, c := range []struct {
		name        string
		stream      string
		target      plan.Target
		sel         plan.Expr
		msg, hint   string
		start, stop int
	}{
		{"misspelt", catalog.FunctionStart, exe, at("processComand"),
			"no function named processComand in target", "did you mean processCommand", 40, 54},
		{"no such pattern", catalog.FunctionStart, exe, testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("zz%")),
			"no function in target satisfies function_name like 'zz%'", "SHOW FUNCTIONS", 7, 21},
		{"excluded by another condition", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), testplan.Is(plan.SelectClass, "Server")),
			"no function in target satisfies", "none of the functions there is a method", 40, 54},
		{"excluded by one on its own name", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), testplan.Call("like", testplan.SelectColumn(plan.SelectName), testplan.Constant("zz%"))),
			"no function in target satisfies", "SHOW FUNCTIONS", 40, 54},
		{"no such module", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), testplan.Is(plan.SelectModule, "none")),
			"no module of the target satisfies", "a module is called by its file", 7, 21},
		{"module by its path", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), testplan.Is(plan.SelectModule, target)),
			"no module is called '/", "module = 'target'", 7, 21},
		{"library by its path", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), testplan.Is(plan.SelectModule, "/usr/lib/libc.so.6")),
			"no module is called '/usr/lib/libc.so.6'", "module = 'libc.so.6'", 7, 21},
		{"one of several by its path", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), &plan.In{X: testplan.SelectColumn(plan.SelectModule), List: []plan.Const{{V: types.Str("libm.so.6")}, {V: types.Str("lib/libc.so.6"), Start: 50, Stop: 65}}}),
			"no module is called 'lib/libc.so.6'", "module = 'libc.so.6'", 50, 65},
		{"pattern of paths", catalog.FunctionStart, exe, testplan.Call("and", at("processCommand"), testplan.Call("like", testplan.SelectColumn(plan.SelectModule), testplan.Constant("/usr/lib/%/libc%"))),
			"no module is called '/usr/lib/%/libc%'", "module LIKE 'libc%'", 7, 21},
		{"near to what only addresses are called", catalog.FunctionStart, plan.Target{Exes: []string{stripped}}, at("sub"),
			"no function named sub in target", "target has been stripped", 40, 54},
		{"no target", catalog.FunctionDuration, plan.Target{}, at("processCommand"),
			"function_duration needs a process", "add WHERE pid", 7, 21},
		{"no process", catalog.FunctionStart, plan.Target{PIDs: []int{1 << 22}, Start: 60, Stop: 68}, at("processCommand"),
			"there is no process 4194304", "SHOW PROCESSES", 60, 68},
		{"no file", catalog.FunctionStart, plan.Target{Exes: []string{"/nowhere/program"}, Start: 60, Stop: 68}, at("processCommand"),
			"/nowhere/program does not exist", "", 60, 68},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := provider(t, Options{})
			spec := testplan.Acquire(c.stream, c.target, c.sel, "timestamp")
			spec.Start, spec.Stop = 7, 21
			_, err := p.Prepare(t.Context(), spec)
			e := refused(t, err, c.msg, c.hint)
			if e.Start != c.start || e.Stop != c.stop {
				t.Errorf("placed at %d-%d, want %d-%d", e.Start, e.Stop, c.start, c.stop)
			}
		})
	}
}

// Of a list of names, existing functions are monitored and the others are reported.
func TestSomeNamesDoNotExist(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, manyNames, "-O1")
	p := provider(t, Options{})
	r := run(t, target)
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("processCommand", "processComandAndReset"), "function_name"))
	r.finish(success)
	got.wait(t)
	if n := len(got.rows); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	notices := strings.Join(src.Info().Notices, "\n")
	if want := "processComandAndReset (there is no such function; did you mean processCommandAndReset"; !strings.Contains(notices, want) {
		t.Errorf("notices %q, want %q", notices, want)
	}
}

// Functions whose entry cannot be probed are skipped and reported by name; the others of
// the same link are not affected.
func TestUnprobeableFunctionsAreSkippedByName(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
long cell;
__asm__(".text\n.globl locked\n.type locked,@function\nlocked: lock incq cell(%rip)\nmov %rdi,%rax\nret\n.size locked,.-locked\n");
long locked(long);
NOINLINE long plain(long n) { sink += n; return n; }
int main(void) { ready(); for (int i = 0; i < 5; i++) plain(locked(i)); return cell == 5 ? 0 : 7; }
`, "-O1", "-no-pie")
	p := provider(t, Options{})
	r := run(t, target)
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("plain", "locked"), "function_name", "arg0"))
	_, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("locked"), "arg0"))
	refused(t, err, "cannot probe locked: ", "")
	// A query that reads no arguments can probe the second instruction.
	_, counted := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("locked"), "function_name"))
	r.finish(success)
	if n := len(counted.wait(t).rows); n != 5 {
		t.Errorf("%d rows at the second instruction, want 5", n)
	}
	if n := len(got.wait(t).rows); n != 5 {
		t.Errorf("%d rows, want 5", n)
	}
	if ns := src.Info().Notices; len(ns) == 0 || !strings.HasPrefix(ns[0], "1 function is not monitored: locked (") {
		t.Errorf("notices %q", ns)
	}
}

// Code that the program has changed differs from the file, and is not probed.
func TestPatchedCodeIsLeftAlone(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, prelude+`
#include <sys/mman.h>
NOINLINE long before(long n) { sink += n; return 1; }
NOINLINE long patched(long n) { sink += n; return 1; }
int main(int argc, char **argv) {
	long page = (long)patched & ~4095L;
	if (mprotect((void *)page, 8192, PROT_READ|PROT_WRITE|PROT_EXEC)) return 5;
	memcpy((void *)patched, "\xb8\x2a\x00\x00\x00\xc3", 6); /* mov eax, 42; ret */
	if (argc == 1 && mprotect((void *)page, 8192, PROT_READ|PROT_EXEC)) return 5;
	ready();
	return before(1) == 1 && patched(1) == 42 ? 0 : 6;
}
`, "-O1", "-fcf-protection=none")
	p := provider(t, Options{})
	r := run(t, target)
	src, got := start(t, p, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("before", "patched"), "function_name"))
	_, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("patched"), "function_name"))
	refused(t, err, "cannot probe patched: the process has changed its code", "")
	r.finish(success)
	if n := len(got.wait(t).rows); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	if ns := src.Info().Notices; len(ns) == 0 || !strings.HasPrefix(ns[0], "1 function is not monitored: patched (the process has changed its code)") {
		t.Errorf("notices %q", ns)
	}
	t.Run("left writable", func(t *testing.T) {
		r := run(t, target, "writable")
		_, err := p.Prepare(t.Context(), testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("before"), "function_name"))
		refused(t, err, "cannot probe before: the process has made its code writable", "")
		r.finish(success)
	})
}

// A function that is already probed looks patched but is not.
func TestProbedCodeIsNotPatchedCode(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{{"-O1"}, {"-O1", "-fpatchable-function-entry=0"}, {"-O1", "-fcf-protection"}} {
		target := testenv.CompileCText(t, worker, flags...)
		ours, theirs := provider(t, Options{}), provider(t, Options{})
		r := run(t, target, "10")
		_, a := start(t, ours, testplan.Acquire(catalog.FunctionStart, r.target(), testplan.Named("work"), "timestamp"))
		_, b := start(t, theirs, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("work"), "timestamp"))
		r.finish(success)
		if x, y := len(a.wait(t).rows), len(b.wait(t).rows); x != 10 || y != 10 {
			t.Errorf("%v: %d and %d rows, want 10 each", flags, x, y)
		}
	}
}
