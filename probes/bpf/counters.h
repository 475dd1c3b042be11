/* SPDX-License-Identifier: GPL-2.0 */
/* The query's counters, and the entries of each function. */
#ifndef ENDOSCOPE_COUNTERS_H
#define ENDOSCOPE_COUNTERS_H

#include "query.h"

/*
 * A query that others have a part in is divided when one comes or goes. Its calls
 * are counted apart by the division after which they began: the last so many are
 * told apart, by number & (GENERATIONS - 1).
 */
#define GENERATIONS 32

/* Monotonic counts. Calls in flight or unfinished: armed - returned. */
struct counters {
	__u64 armed[GENERATIONS];    /* calls whose return is awaited */
	__u64 returned[GENERATIONS]; /* those of them that returned */
	__u64 lost;         /* events that found the ring full */
	__u64 limited;      /* events above the query's rate */
	__u64 ungrouped;    /* not aggregated: no room for another group */
	__u64 foreign;      /* return not armed: sp is not in the thread's stack */
	__u64 unchecked;    /* return not armed: the stack could not be looked up */
	__u64 nesting;      /* return not armed: too many nested calls */
	__u64 unstored;     /* return not armed: no memory for the thread's calls */
	__u64 overflown;    /* return not awaited: too many calls are under way */
	__u64 missed;       /* entries and exits of a goroutine that could not be read */
	__u64 inherited;    /* returns of calls that began before the fork */
	__u64 offered;      /* calls at the query's gate, and */
	__u64 shut;         /* those that found it shut */
	__u64 unreadable;   /* calls of which something in memory could not be read; it is NULL, or 0 */
	__u64 cut;          /* calls of which a text was cut off */
	__u64 too_large;    /* calls with a number that has no room */
	__u64 unkept;       /* calls whose texts were not kept until the return */
	__u64 undefined;    /* calls of methods that have no number */
	__u64 carried;      /* calls of virtual threads, whose returns are another's */
};

/* Programs of one CPU can interrupt each other where the kernel is preemptible. */
#define COUNT(field) __sync_fetch_and_add(&(field), 1)

/* Entries of target processes, wanted or not, by function. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

/* The query's counters: the map has one entry, so that they are always there. */
#define COUNT_CALL(field)                                                   \
	do {                                                                \
		__u32 zero = 0;                                             \
		struct counters *c_ = bpf_map_lookup_elem(&counts, &zero);  \
		if (c_)                                                     \
			COUNT(c_->field);                                   \
	} while (0)

static __always_inline void count_hit(__u64 cookie)
{
	if (aggregate & NO_HITS)
		return;
	__u32 id = ID(cookie);
	__u64 *n = bpf_map_lookup_elem(&hits, &id);

	if (n)
		COUNT(*n);
}

#endif
