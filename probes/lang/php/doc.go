// Package php reads the stacks of running PHP programs: the PHP functions, where the
// machine's stack only shows the interpreter.
//
// It knows where the Zend engine keeps them: the executor's globals, calls and functions,
// at offsets known for each version (layout.go); unknown versions are refused, and so are
// builds with threads (ZTS), which keep the globals of each thread elsewhere. The sources
// are Zend/zend_globals.h, zend_compile.h, zend_types.h and zend_vm_execute.h of each.
// Package interpreter reads them.
//
// It must not know eBPF, unwinding, SQL or streams.
package php
