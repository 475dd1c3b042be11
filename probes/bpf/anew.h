/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A process whose probes were made anew, because a thread that is not its leader has
 * executed a program: what that called until then is missing.
 */
#ifndef ENDOSCOPE_ANEW_H
#define ENDOSCOPE_ANEW_H

#include "query.h"

/* The process, which program of it that is (task->self_exec_id), and until when calls
 * were missed, by the boot clock. */
volatile __u64 anew_pid, anew_image, anew_until;

/*
 * began_unseen reports whether calls may be missing in front of the first event of a
 * sequence: of a thread that began before the probes were there, or of Go's first
 * goroutine. When others began nobody knows.
 */
static __always_inline bool began_unseen(struct task_struct *task, __u64 goroutine)
{
	if (!anew_pid || anew_pid != bpf_get_current_pid_tgid() >> 32 || anew_image != task->self_exec_id)
		return false;
	return goroutine ? goroutine == 1 : task->start_boottime < anew_until;
}

#endif
