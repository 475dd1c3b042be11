/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads of the target's memory that wait until it is present. A page of a file that the
 * program has not touched yet, or that the kernel has reclaimed, is not: most helpers
 * then fail. Sleepable programs (Linux 6.0) can have it loaded as the program itself
 * would, at the cost of the thread's time.
 *
 * Values are first read without waiting. Only if that fails, they are read again by
 * functions that may wait, so memory that is present costs nothing more.
 *
 * While a program waits, other programs run on its CPU, but none on its thread. So nothing
 * per CPU may be kept across such a read, and no record of the ring, since it would hide
 * later records of all queries: values are read to memory of the thread. User space waits
 * for running programs only between bpf_rcu_read_lock and its end: see emit.
 */
#ifndef ENDOSCOPE_WAIT_H
#define ENDOSCOPE_WAIT_H

#include "counters.h"

/* Whether the programs are sleepable; set by the loader. */
const volatile bool waits = false;

extern void bpf_rcu_read_lock(void) __ksym __weak;
extern void bpf_rcu_read_unlock(void) __ksym __weak;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct___switches {
	unsigned long nvcsw; /* how often the thread gave up its CPU to wait */
};

#pragma clang attribute pop

struct wait {
	__u64 since, switches;
};

static __always_inline __u64 switches(void)
{
	return ((struct task_struct___switches *)plain(bpf_get_current_task_btf()))->nvcsw;
}

/* begin_wait precedes reads that may wait. */
static __always_inline void begin_wait(struct wait *w)
{
	w->switches = switches();
	w->since = bpf_ktime_get_boot_ns();
}

/* end_wait counts the call if its thread was blocked by reads since begin_wait. */
static __always_inline void end_wait(const struct wait *w)
{
	__u32 zero = 0;

	if (switches() == w->switches)
		return;
	struct counters *c = bpf_map_lookup_elem(&counts, &zero);
	if (c) {
		COUNT(c->waited);
		__sync_fetch_and_add(&c->waiting, bpf_ktime_get_boot_ns() - w->since);
	}
}

/* await_word reads a word or a part of one, and waits for it. */
static __noinline int await_word(__u64 *to, __u32 size, __u64 from)
{
	struct wait w;

	begin_wait(&w);
	int failed = bpf_copy_from_user(to, size <= sizeof(*to) ? size : sizeof(*to), (void *)from) != 0;
	end_wait(&w);
	return failed;
}

/* read_user reads a word of the target or a part of one, and waits for it if the programs may. */
static __always_inline long read_user(__u64 *to, __u32 size, __u64 from)
{
	long failed = bpf_probe_read_user(to, size, (void *)from);

	return failed && waits ? await_word(to, size, from) : failed;
}

#endif
