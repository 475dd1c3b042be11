/* SPDX-License-Identifier: GPL-2.0 */
/* Resources used by a thread; for a call, the difference between entry and return. */
#ifndef ENDOSCOPE_COST_H
#define ENDOSCOPE_COST_H

#include "moment.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_entity___cost {
	__u64 sum_exec_runtime, exec_start;
};

struct task_io_accounting___cost {
	__u64 rchar, wchar;
};

struct task_struct___cost {
	struct sched_entity___cost se;
	struct task_io_accounting___cost ioac;
};

#pragma clang attribute pop

/* The value of an unknown cost. */
#define NO_COST (~0ULL)

/*
 * used records what the thread has used so far: CPU time, and bytes read and written by
 * system calls. The kernel accounts CPU time at ticks and context switches (counted). The
 * time since then is the difference of two clocks that advance equally on one CPU but
 * have different origins, so only differences of the result are meaningful.
 */
static __always_inline void used(__u64 *cost, __u64 *counted, struct task_struct *task, __u64 now)
{
	struct task_struct___cost *t = (void *)task;

	*counted = BPF_CORE_READ(t, se.sum_exec_runtime);
	cost[0] = *counted - BPF_CORE_READ(t, se.exec_start) + now;
	cost[1] = cost[2] = NO_COST;
	if (bpf_core_field_exists(t->ioac.rchar)) { /* CONFIG_TASK_XACCT */
		cost[1] = BPF_CORE_READ(t, ioac.rchar);
		cost[2] = BPF_CORE_READ(t, ioac.wchar);
	}
}

/* note_cost records the costs at an entry, after its time. */
static __always_inline void note_cost(struct moment *m, struct task_struct *task)
{
	if (!(options & SEND_COST))
		return;
	used(m->cost, &m->counted, task, m->time);
	m->cpu = bpf_get_smp_processor_id();
}

/*
 * take_cost computes the costs at the return. CPU time that the kernel has not accounted
 * yet is known only on the CPU of the entry. Elsewhere it is left out: up to a tick.
 */
static __always_inline void take_cost(struct moment *m, struct task_struct *task)
{
	if (!(options & SEND_COST))
		return;
	__u64 now[COSTS], counted;
	bool same = m->tid == (__u32)bpf_get_current_pid_tgid();

	used(now, &counted, task, m->time);
	for (int i = 0; i < COSTS; i++)
		m->cost[i] = same && now[i] != NO_COST ? now[i] - m->cost[i] : NO_COST;
	if (same && (m->cpu != bpf_get_smp_processor_id() || m->cost[0] > m->duration))
		m->cost[0] = counted - m->counted;
}

#endif
