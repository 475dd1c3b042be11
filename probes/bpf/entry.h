/* SPDX-License-Identifier: GPL-2.0 */
/* What is recorded of a call at its entry. */
#ifndef ENDOSCOPE_ENTRY_H
#define ENDOSCOPE_ENTRY_H

#include "arguments.h"
#include "cost.h"
#include "memory.h"
#include "moment.h"
#include "receiver.h"
#include "values.h"

/* look records what is known of a call at its entry; m is zeroed. */
static __always_inline void look(struct moment *m, const struct pt_regs *ctx, __u64 cookie, struct task_struct *task)
{
	__u64 id = bpf_get_current_pid_tgid();

	m->cookie = cookie;
	m->pid = id >> 32;
	m->tid = (__u32)id;
	if (options & USE_ARGS)
		read_args(m->args, ctx, cookie);
	note_size(m);
	if (options & SEND_STACK)
		m->ip = ctx->ip;
	if ((options & SEND_RECEIVER) && (cookie & METHOD))
		read_receiver(m, ctx);
	read_values(m, ctx, task);
	/* The time is read last: the call waits until its values are read. */
	if (!(aggregate & UNTIMED))
		m->time = m->start = bpf_ktime_get_boot_ns();
	note_cost(m, task);
	if ((options & USE_NAMES) && !(options & LATE_NAMES))
		read_names(m, task);
}

#endif
