// Package python reads the stacks of running CPython programs: the Python
// functions, where the machine's stack only shows the interpreter.
//
// It knows where CPython keeps them: threads, frames and code objects, at offsets
// known for each version (layout.go); unknown versions are refused. The sources are
// Include/internal and Include/cpython of each. Package interpreter reads them.
//
// It must not know eBPF, unwinding, SQL or streams.
package python
