// Package golang lists the goroutines of running Go programs. The kernel does
// not know them: a waiting goroutine has no thread.
//
// It reads the runtime's own list (runtime.allgs) from the memory of the
// program, at addresses from its debug information. Nothing is stopped: memory
// may change meanwhile, so a goroutine is read twice and dropped if it has
// moved. Memory of a target is hostile: what is read from it is bounded and
// checked.
//
// It must not know eBPF, unwinding, SQL or streams.
package golang
