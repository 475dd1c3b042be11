package codesite

import (
	stdelf "debug/elf"
	"strings"

	"endoscope/probes/elf"
)

// ReturnTrap reports whether the kernel may replace the return address of
// function i by its trampoline, or in the user's words why not. A trap where it
// is not allowed kills the target: an unwinder, a context switch or a stack
// copy finds an address that is not the caller's. What only a running process
// shows (a stack that is not the thread's) must be checked in addition.
func (m Code) ReturnTrap(i int) (ok bool, reason string) { return m.returnTrap(i, false) }

// ReturnTrapOfNoexcept is ReturnTrap for a function through which, as the
// caller knows, nothing unwinds, though its module may unwind elsewhere. The
// caller also knows that the function follows the ABI, so no unwind information
// is required to show that its return address is on top of the stack (static
// programs of musl have none).
func (m Code) ReturnTrapOfNoexcept(i int) (ok bool, reason string) { return m.returnTrap(i, true) }

func (m Code) returnTrap(i int, noexcept bool) (ok bool, reason string) {
	if i < 0 || i >= len(m.Entries()) {
		return false, "no such function"
	}
	f := m.Function(i)
	switch {
	case f.Lang == elf.Go:
		return false, "Go moves stacks while calls are under way"
	case m.HasGo():
		return false, "a Go panic may unwind through it"
	case noexcept:
	case f.Lang == elf.Rust:
		return false, "a Rust panic may unwind through it"
	case m.UnwindTable().Exceptions && isLibc(m):
		return false, "thread cancellation and pthread_exit unwind through the C library"
	case m.Unwinds(), f.Lang == elf.CPP:
		return false, "C++ exceptions may unwind through it"
	}
	for _, name := range append([]string{f.Mangled}, f.Aliases...) {
		if reason := returnTroubles[withoutUnderscores(name)]; reason != "" {
			return false, reason
		}
		if elf.IsPart(name) {
			return false, "it is a fragment of a function"
		}
		if strings.HasPrefix(name, "_Unwind_") || strings.HasPrefix(name, "__cxa_throw") {
			return false, unwinds
		}
	}
	e := m.UnwindTable().Find(f.Addr)
	if e == nil && !noexcept {
		return false, "it has no unwind information to say where its return address is"
	}
	if e != nil && e.IsSignal() {
		return false, "it is a signal return trampoline"
	}
	site, err := m.EntrySite(i)
	if err != nil {
		return false, "it cannot be probed: it " + err.Error()
	}
	if e != nil {
		if row, ok := e.Row(site.Addr); !ok || !row.AtEntry() {
			return false, "its return address is not on top of the stack where it begins"
		}
	}
	if m.readsReturnAddress(i) {
		return false, readsCaller
	}
	if m.SwitchesStacks() {
		return false, "coroutines may run it on stacks of their own"
	}
	return true, ""
}

// SwitchesStacks reports whether the module switches between contexts by known
// functions: it is an executable that defines them, or it imports them. Then any
// function may run on another stack; that may even be inside the thread's own,
// where no check at run time detects it.
func (m Code) SwitchesStacks() bool {
	m.switching.Do(func() {
		for _, name := range m.Imports() {
			m.switches = m.switches || switchers[withoutUnderscores(name)]
		}
		if name, _ := m.Image().ELF.DynString(stdelf.DT_SONAME); len(name) > 0 && isLibc(m) {
			return // a library that defines them for others
		}
		for name := range switchers {
			m.switches = m.switches || len(m.Find(name)) > 0
		}
	})
	return m.switches
}

// switchers are functions that continue on another stack. (getcontext is not
// one: unwinders use it.)
var switchers = map[string]bool{
	"makecontext": true, "swapcontext": true, "setcontext": true,
	"make_fcontext": true, "jump_fcontext": true, "ontop_fcontext": true, // Boost
}

func withoutUnderscores(name string) string { return strings.TrimLeft(name, "_") }

// isLibc reports whether the module is the C library, by a function that only
// it defines.
func isLibc(m Code) bool { return len(m.Find("__libc_start_main")) > 0 }

// Why functions of certain names have no return trap.
const (
	readsCaller = "it reads its return address to identify its caller"
	jumps       = "it returns twice or not to its caller (setjmp, longjmp)"
	switches    = "it switches to another stack"
	exits       = "it ends the thread or process"
	unwinds     = "it unwinds the stack"
	borrows     = "it shares its stack with a child process (vfork, clone)"
)

// returnTroubles lists functions of the C library and of coroutine libraries,
// without leading underscores.
var returnTroubles = map[string]string{
	"dlsym": readsCaller, "dlvsym": readsCaller, "dlopen": readsCaller, "dlmopen": readsCaller,
	"dl_iterate_phdr": readsCaller, "mcount": readsCaller, "fentry__": readsCaller,
	"cyg_profile_func_enter": readsCaller, "cyg_profile_func_exit": readsCaller,

	"setjmp": jumps, "sigsetjmp": jumps, "longjmp": jumps, "siglongjmp": jumps,
	"longjmp_chk": jumps, "libc_longjmp": jumps, "libc_siglongjmp": jumps,

	"getcontext": switches, "setcontext": switches, "swapcontext": switches, "makecontext": switches,
	"start_context": switches, "push___start_context": switches,
	"make_fcontext": switches, "jump_fcontext": switches, "ontop_fcontext": switches, // Boost

	"exit": exits, "Exit": exits, "exit_group": exits, "quick_exit": exits,
	"pthread_exit": exits, "thrd_exit": exits,

	"backtrace": unwinds, "pthread_unwind": unwinds, "pthread_unwind_next": unwinds, "pthread_cancel": unwinds,

	"vfork": borrows, "libc_vfork": borrows, "clone": borrows, "clone3": borrows,
}
