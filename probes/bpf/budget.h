/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queries with a budget: what each hit of a probe costs the program is added up, whether or
 * not the hit counts, so that user space notices an excess in milliseconds.
 */
#ifndef ENDOSCOPE_BUDGET_H
#define ENDOSCOPE_BUDGET_H

#include "counters.h"

/*
 * By function: a word, with in the lower half the price of a call, ns, and in the upper half flags and,
 * with MOVING, the number of the move. User space writes each word at one instant.
 *
 * RETIRED: its calls do not count any more. The probe is detached afterwards, which takes
 * longer.
 *
 * MOVING: two links have the function, which differ in the cookie's GENERATION, and each hit
 * runs the program twice. The kernel runs the link that was attached last first
 * (consumer_add in kernel/events/uprobes.c): that one marks the thread, and the other does
 * not count a hit whose mark it finds. MOVING is set before the second link is attached,
 * and cleared when the first is closed. No hit is missing, and none counts twice.
 */
#define RETIRED (1ULL << 63)
#define MOVING (1ULL << 62)
#define NEWER (1ULL << 61) /* the generation of the link that was attached last */
#define MOVE_NUMBER (NEWER - (1ULL << 32))
#define PRICE(word) ((__u32)(word))
struct price {
	__u64 word;
	__u64 hits; /* user space reads those of all functions often, without a system call */
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct price);
} prices SEC(".maps");

/* The function and the move of a hit that has counted. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} moved SEC(".maps");

/*
 * What was spent on a CPU, each in its cache line, and the limit at which user space is
 * woken, by a record in `alarms`: it then detaches what costs too much. A program cannot
 * spare the program the trap, so that ignoring hits would save little and lose counts.
 */
struct spending {
	__u64 ns;
	__u64 limit;
	__u64 unused[6];
};
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct spending);
} spent SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} alarms SEC(".maps");

/* spend_price adds a price to what was spent. */
static __always_inline bool spend_price(__u32 price)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct spending *s = bpf_map_lookup_elem(&spent, &cpu);

	if (!s)
		return false; /* never */
	if (__sync_fetch_and_add(&s->ns, price) + price > *(volatile __u64 *)&s->limit) {
		*(volatile __u64 *)&s->limit = ~0ULL;
		__u64 record = cpu;
		bpf_ringbuf_output(&alarms, &record, sizeof(record), BPF_RB_FORCE_WAKEUP);
	}
	return true;
}

/* is_second reports whether another link of a function that moves has counted the hit. */
static __always_inline bool is_second(__u64 cookie, __u64 word)
{
	__u64 mark = (word & MOVE_NUMBER) | ID(cookie);
	bool newer = !(cookie & GENERATION) == !(word & NEWER);
	__u64 *at = bpf_task_storage_get(&moved, bpf_get_current_task_btf(), NULL, newer ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);

	if (newer) {
		if (at)
			*at = mark;
		return !at; /* without a mark the other counts it */
	}
	if (!at || *at != mark)
		return false;
	*at = 0;
	return true;
}

/* charge counts a hit and adds its price. It reports whether the hit is to be ignored. */
static __always_inline bool charge(__u64 cookie)
{
	if (!budgeted)
		return false;
	__u32 id = ID(cookie);
	struct price *p = bpf_map_lookup_elem(&prices, &id);

	if (!p)
		return true; /* never */
	__u64 word = *(volatile __u64 *)&p->word;
	if ((word & MOVING) && is_second(cookie, word))
		return true;
	COUNT(p->hits);
	return !spend_price(PRICE(word)) || (word & RETIRED);
}

#endif
