/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The children of a target's processes: followed from before their first instruction, or
 * only counted. The tracepoint of fork is passed by the parent before the child runs. That
 * of exit is passed by the last thread of a process before its pid can be used again, so
 * `family` needs no start times.
 */
#ifndef ENDOSCOPE_FOLLOW_H
#define ENDOSCOPE_FOLLOW_H

#include "standby.h"
#include "target.h"

/* began handles the start of a thread or process by the current thread. */
static __always_inline void began(struct task_struct *child)
{
	__u32 pid = BPF_CORE_READ(child, tgid), value = CHILD;

	if (pid != BPF_CORE_READ(child, pid) || (!member() && !(follows && is_named(bpf_get_current_task_btf()))))
		return;
	if (bpf_map_update_elem(&family, &pid, &value, BPF_ANY) && follows)
		COUNT_CALL(unfollowed);
	if (!follows && (!(options & STANDBY) || open))
		COUNT_CALL(children);
}

/* ended handles the end of the current thread. */
static __always_inline void ended(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (!BPF_CORE_READ(task, signal, live.counter))
		bpf_map_delete_elem(&family, &pid);
}

#endif
