// Package python reads the stacks of running CPython programs: the Python
// functions, where the machine's stack only shows the interpreter.
//
// It reads the interpreter's structures from the memory of the program, at
// offsets known for each version (layout.go); unknown versions are refused.
// Nothing is stopped: memory may change meanwhile, so a chain of frames is read
// twice. Memory of a target is hostile: what is read from it is bounded and
// checked.
//
// It must not know eBPF, unwinding, SQL or streams.
package python
