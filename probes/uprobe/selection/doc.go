// Package selection finds what a query means: the modules that its target's processes
// have mapped or will map, the functions of these that its predicate selects, and the
// processes of whom calls are wanted.
//
// Locks: a selector serialises the predicate over modules, which several goroutines
// ask; a module's Written belongs to the provider's mutex.
//
// It must not know where a function is probed, what its calls are asked for, or what
// the kernel runs.
package selection
