package symbols

import (
	"fmt"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

func TestReturnTrapInC(t *testing.T) {
	path := compile(t, ".c", `
		#include <setjmp.h>
		#include <stdlib.h>
		__attribute__((noinline)) int work(int x) { volatile int y = x; return y; }
		__attribute__((noinline)) int dlsym(int x) { return work(x) + 1; }
		__attribute__((noinline)) void swapcontext(int x) { work(x); }
		int no_unwind(void);
		asm(".text\n.globl no_unwind\n.type no_unwind, @function\nno_unwind: mov $1, %eax\nret\n.size no_unwind, .-no_unwind");
		int shifted(void);
		asm(".text\n.globl shifted\n.type shifted, @function\nshifted:\n.cfi_startproc\n.cfi_def_cfa_offset 16\nret\n.cfi_endproc\n.size shifted, .-shifted");
		int handler(void);
		asm(".text\n.globl handler\n.type handler, @function\nhandler:\n.cfi_startproc\n.cfi_signal_frame\nret\n.cfi_endproc\n.size handler, .-handler");
		int locked(void);
		asm(".text\n.globl locked\n.type locked, @function\nlocked:\n.cfi_startproc\nlock incl (%rdi)\nret\n.cfi_endproc\n.size locked, .-locked");
		int main(int argc, char **argv) {
			swapcontext(argc);
			return work(argc) + dlsym(argc) + no_unwind() + shifted() + handler() + locked();
		}`, "-O1", "-fno-builtin")
	m := openModule(t, path)
	for name, want := range map[string]string{
		"work":        "",
		"main":        "",
		"dlsym":       readsCaller,
		"swapcontext": switches,
		"no_unwind":   "it has no unwind information to say where its return address is",
		"shifted":     "its return address is not on top of the stack where it begins",
		"_start":      "its return address is not on top of the stack where it begins",
		"handler":     "it is a signal return trampoline",
		"locked":      "it cannot be probed: it begins with `lock inc dword ptr [rdi]`, which has a lock prefix (f0) that the kernel refuses to probe",
	} {
		ok, reason := m.ReturnTrap(only(t, m, name))
		if ok != (want == "") || reason != want {
			t.Errorf("%s: %v, %q; want %q", name, ok, reason, want)
		}
	}
}

// Every name of the list is refused in a module that is otherwise harmless.
func TestReturnTrapByName(t *testing.T) {
	var text strings.Builder
	names := []string{"dlsym", "dlvsym", "dlopen", "dlmopen", "setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp", "longjmp",
		"siglongjmp", "__longjmp_chk", "vfork", "__vfork", "pthread_exit", "_exit", "exit_group", "exit", "getcontext",
		"setcontext", "swapcontext", "makecontext", "__start_context", "__push___start_context", "clone", "_Unwind_Resume",
		"split.part.0"}
	for _, name := range append(names, "sigaltstack", "harmless") {
		fmt.Fprintf(&text, "\t.globl %[1]s\n\t.type %[1]s, @function\n%[1]s:\n\t.cfi_startproc\n\tpush %%rbx\n\tpop %%rbx\n\tret\n\t.cfi_endproc\n\t.size %[1]s, .-%[1]s\n", name)
	}
	m := openModule(t, compile(t, ".S", text.String(), "-shared", "-nostdlib"))
	for _, name := range names {
		if ok, reason := m.ReturnTrap(only(t, m, name)); ok || reason == "" {
			t.Errorf("%s may have a return trap", name)
		}
	}
	for _, name := range []string{"sigaltstack", "harmless"} {
		if ok, reason := m.ReturnTrap(only(t, m, name)); !ok {
			t.Errorf("%s may have no return trap: %s", name, reason)
		}
	}
}

// A cold fragment is no function, with symbols or without.
func TestColdFragmentIsNoFunction(t *testing.T) {
	path := compile(t, ".c", `
		#include <stdio.h>
		#include <stdlib.h>
		__attribute__((noinline, cold)) void rare(int x) { printf("%d\n", x); abort(); }
		int work(int *p, int n) {
			int s = 0;
			for (int i = 0; i < n; i++) { if (__builtin_expect(p[i] < 0, 0)) rare(p[i]); s += p[i] * getchar(); }
			return s;
		}
		int main(int argc, char **argv) { return work(&argc, argc); }`, "-O2")
	if !strings.Contains(run(t, "nm", path), "work.cold") {
		t.Skip("this compiler makes no cold fragment of the program")
	}
	full := openModule(t, path)
	if len(full.Find("work.cold")) > 0 {
		t.Error("work.cold is a function")
	}
	cold := strings.Fields(run(t, "nm", path))
	stripped := copyFile(t, path, path+".stripped")
	run(t, "strip", stripped)
	m := openWith(t, stripped, t.TempDir())
	for i, word := range cold {
		if word == "work.cold" && len(m.Find("sub_"+strings.TrimLeft(cold[i-2], "0"))) > 0 {
			t.Error("the fragment is a function of the stripped program")
		}
	}
}

func TestReturnTrapInTheCLibrary(t *testing.T) {
	m := openModule(t, "/lib/x86_64-linux-gnu/libc.so.6")
	for _, name := range []string{"malloc", "read", "pthread_create"} {
		i := m.Find(name)[0]
		if ok, reason := m.ReturnTrap(i); ok || !strings.Contains(reason, "thread cancellation") {
			t.Errorf("%s: %v, %q", name, ok, reason)
		}
	}
}

func TestReturnTrapInRealPrograms(t *testing.T) {
	for name, want := range map[string]struct {
		function string
		ok       bool
	}{
		"postgres":     {"ExecutorRun", true},
		"redis-server": {"processCommand", true},
		"node":         {"main", false}, // C++
	} {
		m := openModule(t, testenv.NeedProgram(t, name))
		i := m.Find(want.function)[0]
		if ok, reason := m.ReturnTrap(i); ok != want.ok {
			t.Errorf("%s: %s: %v %s", name, want.function, ok, reason)
		}
	}
}
