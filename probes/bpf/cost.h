/* SPDX-License-Identifier: GPL-2.0 */
/* What a thread has used: of calls the difference between entry and return. */
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

/* What is not known. */
#define NO_COST (~0ULL)

/*
 * used notes what the thread has used until now: CPU time, and bytes that it read
 * and wrote by system calls. The kernel adds up CPU time at its ticks and when the
 * thread changes (counted); what came since is the difference of two clocks, which
 * run alike on one CPU and begin anywhere: only differences mean anything.
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

/* note_cost is for an entry, whose time is known. */
static __always_inline void note_cost(struct moment *m, struct task_struct *task)
{
	if (!(options & SEND_COST))
		return;
	used(m->cost, &m->counted, task, m->time);
	m->cpu = bpf_get_smp_processor_id();
}

/*
 * take_cost is for the return. What the kernel has not added up yet is known if
 * that is on the CPU of the entry, else it is left out: up to a tick is missing.
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
