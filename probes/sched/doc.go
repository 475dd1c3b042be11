// Package sched acquires the lifecycle events of processes and threads:
// process_start, process_exec, process_end, thread_start and thread_end, from
// the scheduler's tracepoints (include/trace/events/sched.h).
//
// Programs in the kernel (bpf/life.bpf.c) write a record for each event that a
// query wants, with the data that would be gone before it could be read from
// /proc: the executable's path, the arguments, the names. Each query has one
// goroutine that reads them. The observed processes are not touched, and none
// is delayed by more than about a microsecond for each process or thread that
// starts or ends.
//
// It must not know functions, symbols or stacks, nor the consumers of its rows.
package sched
