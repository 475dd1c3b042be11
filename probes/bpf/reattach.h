/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process whose probes were attached again, because a thread other than its leader
 * called execve. Calls of the new program before that are missing.
 */
#ifndef ENDOSCOPE_REATTACH_H
#define ENDOSCOPE_REATTACH_H

#include "query.h"

/* The pid, the program (task->self_exec_id), and the time until which calls were missed,
 * by the boot clock. */
volatile __u64 reattach_pid, reattach_image, reattach_until;

/*
 * began_unseen reports whether calls may be missing before the first event of a sequence:
 * that of a thread that began before the probes were attached, or of Go's first
 * goroutine. The start of other goroutines is not known.
 */
static __always_inline bool began_unseen(struct task_struct *task, __u64 goroutine)
{
	if (!reattach_pid || reattach_pid != bpf_get_current_pid_tgid() >> 32 || reattach_image != task->self_exec_id)
		return false;
	return goroutine ? goroutine == 1 : task->start_boottime < reattach_until;
}

#endif
