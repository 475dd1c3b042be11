package codesite

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"endoscope/probes/testenv"
)

func TestReturnTrapInC(t *testing.T) {
	path := testenv.CompileText(t, ".c", `
		#include <setjmp.h>
		#include <stdlib.h>
		__attribute__((noinline)) int work(int x) { volatile int y = x; return y; }
		__attribute__((noinline)) int dlsym(int x) { return work(x) + 1; }
		int no_unwind(void);
		asm(".text\n.globl no_unwind\n.type no_unwind, @function\nno_unwind: mov $1, %eax\nret\n.size no_unwind, .-no_unwind");
		int shifted(void);
		asm(".text\n.globl shifted\n.type shifted, @function\nshifted:\n.cfi_startproc\n.cfi_def_cfa_offset 16\nret\n.cfi_endproc\n.size shifted, .-shifted");
		int handler(void);
		asm(".text\n.globl handler\n.type handler, @function\nhandler:\n.cfi_startproc\n.cfi_signal_frame\nret\n.cfi_endproc\n.size handler, .-handler");
		int locked(void);
		asm(".text\n.globl locked\n.type locked, @function\nlocked:\n.cfi_startproc\nlock incl (%rdi)\nret\n.cfi_endproc\n.size locked, .-locked");
		int main(int argc, char **argv) {
			return work(argc) + dlsym(argc) + no_unwind() + shifted() + handler() + locked();
		}`, "-O1", "-fno-builtin")
	m := moduleAt(t, path)
	for name, want := range map[string]string{
		"work":      "",
		"main":      "",
		"dlsym":     readsCaller,
		"no_unwind": "it has no unwind information to say where its return address is",
		"shifted":   "its return address is not on top of the stack where it begins",
		"_start":    "its return address is not on top of the stack where it begins",
		"handler":   "it is a signal return trampoline",
		"locked":    "it cannot be probed: it begins with `lock inc dword ptr [rdi]`, which has a lock prefix (f0) that the kernel refuses to probe",
	} {
		ok, reason := In(m).ReturnTrap(indexOf(t, m, name))
		if ok != (want == "") || reason != want {
			t.Errorf("%s: %v, %q; want %q", name, ok, reason, want)
		}
	}
	// No unwind information is needed for a function that is known to follow
	// the ABI.
	for name, want := range map[string]bool{"no_unwind": true, "shifted": false, "handler": false} {
		if ok, reason := In(m).ReturnTrapOfNoexcept(indexOf(t, m, name)); ok != want {
			t.Errorf("%s, through which nothing unwinds: %v, %q", name, ok, reason)
		}
	}
}

// Every name of the list is refused in a module that is otherwise harmless.
func TestReturnTrapByName(t *testing.T) {
	var text strings.Builder
	names := []string{"dlsym", "dlvsym", "dlopen", "dlmopen", "setjmp", "_setjmp", "__sigsetjmp", "sigsetjmp", "longjmp",
		"siglongjmp", "__longjmp_chk", "vfork", "__vfork", "pthread_exit", "_exit", "exit_group", "exit", "getcontext",
		"__start_context", "__push___start_context", "clone", "_Unwind_Resume",
		"split.part.0"}
	for _, name := range append(names, "sigaltstack", "harmless") {
		fmt.Fprintf(&text, "\t.globl %[1]s\n\t.type %[1]s, @function\n%[1]s:\n\t.cfi_startproc\n\tpush %%rbx\n\tpop %%rbx\n\tret\n\t.cfi_endproc\n\t.size %[1]s, .-%[1]s\n", name)
	}
	m := moduleAt(t, testenv.CompileText(t, ".S", text.String(), "-shared", "-nostdlib"))
	for _, name := range names {
		if ok, reason := In(m).ReturnTrap(indexOf(t, m, name)); ok || reason == "" {
			t.Errorf("%s may have a return trap", name)
		}
	}
	for _, name := range []string{"sigaltstack", "harmless"} {
		if ok, reason := In(m).ReturnTrap(indexOf(t, m, name)); !ok {
			t.Errorf("%s may have no return trap: %s", name, reason)
		}
	}
}

// In a module that switches contexts no function has a trap, and the reason
// says so.
func TestReturnTrapBesideContexts(t *testing.T) {
	const work = "__attribute__((noinline)) int work(int x) { volatile int y = x; return y; }\n"
	for name, c := range map[string]struct{ text, flags string }{
		"imported": {"#include <ucontext.h>\n" + work + "int main(int argc, char **argv) { ucontext_t c; setcontext(&c); return work(argc); }", "-O1"},
		"linked":   {"#include <ucontext.h>\n" + work + "int main(int argc, char **argv) { ucontext_t c; makecontext(&c, 0, 0); return work(argc); }", "-static"},
		"defined":  {work + "int jump_fcontext(int x) { return work(x); }\nint main(int argc, char **argv) { return jump_fcontext(argc); }", "-fno-inline"},
		"not so":   {"#include <ucontext.h>\n" + work + "int main(int argc, char **argv) { ucontext_t c; getcontext(&c); return work(argc); }", "-O1"},
	} {
		m := moduleAt(t, testenv.CompileText(t, ".c", c.text, c.flags))
		ok, reason := In(m).ReturnTrap(indexOf(t, m, "work"))
		if want := name == "not so"; ok != want {
			t.Errorf("%s: %v, %q", name, ok, reason)
		}
	}
	m := moduleAt(t, testenv.CompileText(t, ".c", "__attribute__((noinline)) int jump_fcontext(int x) { return x; }\nint main(int argc, char **argv) { return jump_fcontext(argc); }"))
	if _, reason := In(m).ReturnTrap(indexOf(t, m, "jump_fcontext")); reason != switches {
		t.Errorf("jump_fcontext: %q", reason)
	}
}

// Functions that read their return address, and those that tail-call one, are
// refused however they were compiled.
func TestReturnTrapOfThoseWhoLookBack(t *testing.T) {
	testenv.Long(t)
	const text = `
		#define _GNU_SOURCE
		#include <dlfcn.h>
		#include <stdarg.h>
		#include <string.h>
		#define FN __attribute__((noinline, noclone))
		volatile long sink;
		FN long plain(long n) { sink += n; return sink; }
		FN long locals(long n) { volatile long a[20]; memset((void *)a, 1, sizeof a); sink += plain(n); return a[n & 15] + sink; }
		FN long many(long a, long b, long c, long d, long e, long f, long g, long h) { sink += a + b + c + d + e + f; return plain(g) + h; }
		FN long varying(int n, ...) { va_list v; va_start(v, n); long s = 0; while (n--) s += va_arg(v, long); va_end(v); return s; }
		FN void *looks(void) { sink++; return __builtin_return_address(0); }
		FN void *looks_late(long n) { volatile char a[300]; a[n] = 1; sink += plain(n) + a[n]; return __builtin_return_address(0); }
		FN void *becomes(long n) { sink += n; return looks(); }
		FN void *becomes_twice(long n) { sink += n; return becomes(n + 1); }
		FN void *asks(const char *name) { return dlsym(RTLD_NEXT, name); }
		FN void *asks_itself(const char *name) { void *p = dlsym(RTLD_NEXT, name); sink++; return p; }
		int main(int argc, char **argv) {
			return plain(argc) + locals(argc) + many(1, 2, 3, 4, 5, 6, 7, 8) + varying(2, 3L, 4L) + (looks() != looks_late(1)) +
				(becomes(1) != becomes_twice(2)) + (asks("a") != asks_itself("b"));
		}`
	for _, flags := range []string{"-O0", "-O1", "-O2", "-O2 -fno-omit-frame-pointer", "-O2 -fcf-protection=full", "-O2 -fno-plt",
		"-O2 -mstackrealign", "-Os", "-O2 -no-pie", "-O2 -fstack-protector-all", "-O2 -pg"} {
		m := moduleAt(t, testenv.CompileText(t, ".c", text, strings.Fields(flags)...))
		tails := strings.Contains(flags, "-O2") || strings.Contains(flags, "-Os") // tail calls are jumps
		for name, want := range map[string]bool{
			"plain": true, "locals": true, "many": true, "varying": true, "main": true, "asks_itself": true,
			"looks": false, "looks_late": false, "becomes": !tails, "becomes_twice": !tails, "asks": !tails,
		} {
			ok, reason := In(m).ReturnTrap(indexOf(t, m, name))
			if ok != want || !ok && reason != readsCaller {
				t.Errorf("%s: %s: %v, %q; want %v", flags, name, ok, reason, want)
			}
		}
	}
}

// A cold fragment is no function, with symbols or without.
func TestColdFragmentIsNoFunction(t *testing.T) {
	path := testenv.CompileText(t, ".c", `
		#include <stdio.h>
		#include <stdlib.h>
		__attribute__((noinline, cold)) void rare(int x) { printf("%d\n", x); abort(); }
		int work(int *p, int n) {
			int s = 0;
			for (int i = 0; i < n; i++) { if (__builtin_expect(p[i] < 0, 0)) rare(p[i]); s += p[i] * getchar(); }
			return s;
		}
		int main(int argc, char **argv) { return work(&argc, argc); }`, "-O2")
	if !strings.Contains(testenv.Output(t, "nm", path), "work.cold") {
		testenv.Skip(t, "this compiler makes no cold fragment of the program")
	}
	full := moduleAt(t, path)
	if len(full.Find("work.cold")) > 0 {
		t.Error("work.cold is a function")
	}
	cold := strings.Fields(testenv.Output(t, "nm", path))
	for i, word := range cold {
		if word != "work.cold" {
			continue
		}
		addr, err := strconv.ParseUint(cold[i-2], 16, 64)
		if whole, ok := full.WholeOf(addr); err != nil || !ok || full.Function(whole).Name != "work" {
			t.Errorf("work.cold at %s is no piece of work", cold[i-2])
		}
	}
	stripped := testenv.CopyFile(t, path, path+".stripped")
	testenv.Output(t, "strip", stripped)
	m := moduleAt(t, stripped)
	for i, word := range cold {
		if word == "work.cold" && len(m.Find("sub_"+strings.TrimLeft(cold[i-2], "0"))) > 0 {
			t.Error("the fragment is a function of the stripped program")
		}
	}
}

func TestReturnTrapInTheCLibrary(t *testing.T) {
	m := moduleAt(t, "/lib/x86_64-linux-gnu/libc.so.6")
	for _, name := range []string{"malloc", "read", "pthread_create"} {
		i := m.Find(name)[0]
		if ok, reason := In(m).ReturnTrap(i); ok || !strings.Contains(reason, "thread cancellation") {
			t.Errorf("%s: %v, %q", name, ok, reason)
		}
	}
}

func TestReturnTrapInRealPrograms(t *testing.T) {
	testenv.Long(t)
	for name, want := range map[string]struct {
		function string
		ok       bool
	}{
		"postgres":     {"ExecutorRun", true},
		"redis-server": {"processCommand", true},
		"node":         {"main", false}, // C++
	} {
		m := moduleAt(t, testenv.NeedProgram(t, name))
		i := m.Find(want.function)[0]
		if ok, reason := In(m).ReturnTrap(i); ok != want.ok {
			t.Errorf("%s: %s: %v %s", name, want.function, ok, reason)
		}
	}
}

// Nothing in a program that unwinds stacks has a return trap.
func TestReturnTrapInCPP(t *testing.T) {
	m := moduleAt(t, testenv.CompileText(t, ".cc", `
		__attribute__((noinline)) int thrown(int x) { if (x > 1) throw x; return x; }
		int main(int argc, char **) { try { return thrown(argc); } catch (int) { return 0; } }`))
	if ok, reason := In(m).ReturnTrap(indexOf(t, m, "main")); ok || reason != "C++ exceptions may unwind through it" {
		t.Errorf("return trap of main: %v, %q", ok, reason)
	}
}
