// Package python reads the stacks of running CPython programs: the Python
// functions, where the machine's stack only shows the interpreter.
//
// It reads the interpreter's structures from the memory of the program, at
// offsets known for each version (layout.go); unknown versions are refused.
// Nothing is stopped: frames belong together only if their thread did not run while
// they were read, which the caller has to find out; of a running thread, a program
// in the kernel reads them in an interrupt (package stack). Memory of a target is
// hostile: what is read from it is bounded and checked.
//
// It must not know eBPF, unwinding, SQL or streams.
package python
