// Package ruby reads the stacks of running Ruby programs: the Ruby methods and blocks,
// where the machine's stack only shows the interpreter.
//
// It knows where MRI, the interpreter in C, keeps them: threads, control frames,
// instruction sequences and method entries, at offsets known for each version
// (layout.go); unknown versions are refused. The sources are vm_core.h, ractor_core.h,
// thread_pthread.h, iseq.h, method.h and symbol.h of each. Package interpreter reads
// them.
//
// It must not know eBPF, unwinding, SQL or streams.
package ruby
