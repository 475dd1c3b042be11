// Package python reads the stacks of running CPython programs: what the
// interpreter executes, of which the machine's stack shows only the interpreter.
//
// It reads the interpreter's structures from the program's memory, at offsets
// that are known for each version (layout.go); versions that are not known are
// refused. Nothing is stopped: what it reads may change meanwhile, so a chain of
// frames is read twice. Memory of a target is hostile: all that is read of it is
// bounded and checked.
//
// It must not know eBPF, unwinding, SQL or streams.
package python
