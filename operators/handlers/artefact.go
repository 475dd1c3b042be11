package handlers

import "strings"

// What the paper finds beside event handlers (section 6) is told by name. Names
// are data: the tables below are all there is.
//
//   - Code of the compiler's (access$100, bridges to lambdas, linkage stubs) is
//     left out of stacks: what it calls takes its place. So does what Go's
//     wrappers of go statements call, into which the function that is begun may
//     be compiled.
//   - A function without a name (a lambda, or any of a stripped program) that
//     only calls another one gives way to that.
//   - Reflection is left out too: a function called by it is no callback, but
//     called by whoever used reflection.
//   - Functions that output and collections call (toString, compare) are no
//     callbacks.
//   - Waking another thread is output: what it is to do is handed on.
//   - Looking at the clock, which loops do at each event, is no handler.
var (
	artefactParts   = []string{"access$", "$$Lambda", ".deferwrap", "bridge$", "_GLOBAL__sub_I"}
	artefactNames   = map[string]bool{"[plt]": true, "[unknown]": true, "[signal]": true}
	reflectionParts = []string{"java.lang.reflect.", "jdk.internal.reflect.", "sun.reflect.", "java.lang.invoke.", "reflect.Value.call", "reflect.Value.Call"}

	incidentalNames = map[string]bool{
		"toString": true, "hashCode": true, "equals": true, "compareTo": true, "compare": true, "String": true, "GoString": true, "Error": true,
		"Less": true, "Swap": true, "Len": true, "MarshalJSON": true, "UnmarshalJSON": true, "operator<": true, "operator==": true, "operator()<": true,
	}
	clockNames = map[string]bool{
		"currentTimeMillis": true, "nanoTime": true, "gettimeofday": true, "clock_gettime": true, "now": true, "Now": true,
	}

	// wakerNames are the C library's functions that wake other threads.
	wakerNames = map[string]bool{
		"pthread_cond_signal": true, "pthread_cond_broadcast": true, "__pthread_cond_signal": true, "__pthread_cond_broadcast": true,
		"__lll_lock_wake": true, "lll_lock_wake": true, "sem_post": true, "futex_wake": true,
	}

	// keepers are parts of the names of C++'s that call a function later.
	keepers = []string{"_Function_handler", "std::function", "std::__future", "_Async_state", "std::packaged_task", "std::call_once", "std::once_flag"}

	// threadStarts are the system's functions that a thread's own are called by.
	threadStarts = map[string]bool{
		"_start": true, "__libc_start_main": true, "__libc_start_call_main": true, "__libc_start_main_impl": true, "clone": true, "clone3": true, "__clone": true, "__clone3": true,
		"start_thread": true, "execute_native_thread_routine": true,
		"runtime.goexit": true, "runtime.main": true, "runtime.mstart": true, "java.lang.Thread.run": true, "java.lang.Thread.runWith": true,
		"Thread._bootstrap": true, "Thread._bootstrap_inner": true, "Thread.run": true, // Python's
		"_bootstrap": true, "_bootstrap_inner": true, "run": true, // before 3.11
	}
)

func isArtefact(function string) bool {
	if artefactNames[function] {
		return true
	}
	for _, part := range artefactParts {
		if strings.Contains(function, part) {
			return true
		}
	}
	return isReflection(function)
}

func isReflection(function string) bool {
	for _, part := range reflectionParts {
		if strings.HasPrefix(function, part) {
			return true
		}
	}
	return false
}

// isThreadStart reports whether threads begin with a function of the system's. That of
// std::thread, made for what the thread is to do, is where this may wait: what is said
// of it is said of the thread, so that it stays.
func isThreadStart(function string) bool {
	return threadStarts[function] || strings.HasPrefix(function, "std::thread::") && !strings.HasPrefix(function, "std::thread::_State_impl") || strings.HasPrefix(function, "std::sys::") || isWrapper(function)
}

// isNameless reports whether its users do not know a function by its name.
func isNameless(function string) bool {
	if strings.HasPrefix(function, "sub_") {
		return true
	}
	for _, part := range []string{"lambda", "(anonymous)", ".func"} {
		if strings.Contains(function, part) {
			return true
		}
	}
	return false
}

// isWrapper reports whether a function is Go's of a go statement.
func isWrapper(function string) bool { return strings.Contains(function, ".gowrap") }

// isTransparent reports whether a function of the system's is one of a template,
// which calls what its user gave it on the spot: an algorithm, an iterator. Those
// that keep a function for later are not.
func isTransparent(function string) bool {
	if !strings.HasPrefix(function, "std::") && !strings.HasPrefix(function, "__gnu_cxx::") {
		return false
	}
	for _, part := range keepers {
		if strings.Contains(function, part) {
			return false
		}
	}
	return true
}

func isIncidental(function string) bool { return incidentalNames[simpleName(function)] }
func isWaker(function string) bool      { return wakerNames[function] }
func isClock(function string) bool      { return clockNames[simpleName(function)] }

// simpleName is a function's name without its class, package or namespace.
func simpleName(function string) string {
	return function[strings.LastIndexAny(function, ".:@")+1:]
}
