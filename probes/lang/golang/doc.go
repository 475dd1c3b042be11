// Package golang lists the goroutines of running Go programs, which the kernel
// does not know: those that wait have no thread.
//
// It reads the runtime's own list (runtime.allgs) from the program's memory,
// where the program's debug information says that it is. Nothing is stopped:
// what it reads may change meanwhile, so a goroutine is read twice and dropped
// where it has moved. Memory of a target is hostile: all that is read of it is
// bounded and checked.
//
// It must not know eBPF, unwinding, SQL or streams.
package golang
