// Package keeper creates and closes uprobe_multi links in a process of its own.
//
// A process that is killed (SIGKILL) while the kernel attaches or detaches uprobes
// leaves breakpoints in the target for ever: the kernel gives up at the first page of
// code that it cannot get for a killed thread, and writes "failed to unregister,
// leaking uprobe" to its log (register_for_each_vma and uprobe_unregister_nosync in
// kernel/events/uprobes.c; seen on Linux 6.18). The keeper is not killed with this
// process. It holds a descriptor of each link, too, so that the last one is closed by
// the keeper: when a link is closed here, and when this process has ended, in whatever
// way.
//
// The keeper is this program, executed a second time: init recognises it before other
// packages are initialised. So this package imports nothing but the standard library,
// and of that as little as possible.
//
// It must not know programs, functions or queries.
package keeper
