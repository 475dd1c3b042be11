package handlers

import "strings"

// The paper's special cases (section 6) are recognised by name, from the tables below.
//
//   - Compiler-generated code (access$100, bridges to lambdas, linkage stubs) is
//     left out of stacks, and so are Go's wrappers of go statements, into which
//     the started function may be inlined: their callees take their place.
//   - A function without a name (a lambda, or any of a stripped program) that
//     only calls another function is replaced by it.
//   - Reflection is left out too: a function called by reflection is not a
//     callback but a callee of the function that used reflection.
//   - Functions that output and collections call (toString, compare) are not
//     callbacks.
//   - Waking another thread is output: it hands work on.
//   - Reading the clock, which loops do at each event, is not a handler.
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

	// keepers are substrings of the names of C++ functions that store a function and call
	// it later.
	keepers = []string{"_Function_handler", "std::function", "std::__future", "_Async_state", "std::packaged_task", "std::call_once", "std::once_flag"}

	// threadStarts are the system's functions that call a thread's own function.
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

// isThreadStart reports whether threads begin with this function of the system's. The start
// function of std::thread is excluded: it is specific to the thread's function, which may
// wait in it, so it stays in the stack.
func isThreadStart(function string) bool {
	return threadStarts[function] || strings.HasPrefix(function, "std::thread::") && !strings.HasPrefix(function, "std::thread::_State_impl") || strings.HasPrefix(function, "std::sys::") || isWrapper(function)
}

// isNameless reports whether the function has no name its users know.
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

// isWrapper reports whether a function is Go's wrapper of a go statement.
func isWrapper(function string) bool { return strings.Contains(function, ".gowrap") }

// isTransparent reports whether a system function is a template that calls its user's
// function directly: an algorithm, an iterator. A template that stores a function for later
// is not transparent.
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

// simpleName returns a function's name without its class, package or namespace.
func simpleName(function string) string {
	return function[strings.LastIndexAny(function, ".:@")+1:]
}
