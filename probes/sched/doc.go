// Package sched acquires the lives of processes and threads: process_start,
// process_exec, process_end, thread_start and thread_end, from the scheduler's
// tracepoints (include/trace/events/sched.h).
//
// Programs in the kernel (bpf/life.bpf.c) write a record for each event that a
// query wants, with what would be gone before anybody could read it from /proc:
// the executable's path, the arguments, the names. One goroutine a query reads
// them. Nothing of the observed processes is touched, and none is slowed beyond
// about a microsecond for each process or thread that comes and goes.
//
// It must not know functions, symbols or stacks, nor who reads the rows.
package sched
