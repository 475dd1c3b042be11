// Package selection determines what a query refers to: the modules that its target's
// processes have mapped or will map, the functions in them that its predicate selects,
// and the processes whose calls are observed.
//
// Locks: a selector serialises the predicate over modules, because several goroutines
// evaluate it; a module's Written is guarded by the provider's mutex.
//
// It must not know where a function is probed, which columns of its calls are read, or
// what the kernel runs.
package selection
