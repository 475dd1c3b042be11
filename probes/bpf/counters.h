/* SPDX-License-Identifier: GPL-2.0 */
/* The query's counters, and the entries of each function. */
#ifndef ENDOSCOPE_COUNTERS_H
#define ENDOSCOPE_COUNTERS_H

#include "query.h"

/*
 * A shared acquisition is divided when a query joins or leaves it. Calls are counted
 * separately by the division after which they began. The last GENERATIONS divisions are
 * distinguished, by number & (GENERATIONS - 1).
 */
#define GENERATIONS 32

/* Monotonic counts. Calls under way or unfinished: armed - returned. */
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
	__u64 offered;      /* calls that reached the query's gate */
	__u64 shut;         /* calls that found the gate closed */
	__u64 unreadable;   /* calls with unreadable memory; the value is NULL, or 0 */
	__u64 cut;          /* calls with a truncated text */
	__u64 too_large;    /* calls with a number that does not fit its column */
	__u64 unkept;       /* calls whose texts were not kept until the return */
	__u64 undefined;    /* calls of methods without a number */
	__u64 unlisted;     /* returns of calls of a coroutine whose list is not known */
	__u64 carried;      /* calls on threads that carry virtual threads */
	__u64 waited;       /* calls that were blocked by reading values: wait.h */
	__u64 waiting;      /* and for how long together, ns */
	__u64 children;     /* processes started by those of the target and not observed */
	__u64 unfollowed;   /* those that found no room in `family` */
	__u64 hidden;       /* those that the query's user may not observe any more */
	__u64 unopened;     /* contexts that found no room: context.h */
	__u64 unclosed;     /* sequences inside a context of which events are missing */
};

/* Atomic: on a preemptible kernel one program can interrupt another on the same CPU. */
#define COUNT(field) __sync_fetch_and_add(&(field), 1)

/* Entries by target processes, selected or not, by function. */
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

/* Adds 1 to a counter of the query. The map has one entry, so the lookup succeeds. */
#define COUNT_CALL(field)                                                   \
	do {                                                                \
		__u32 zero = 0;                                             \
		struct counters *c_ = bpf_map_lookup_elem(&counts, &zero);  \
		if (c_)                                                     \
			COUNT(c_->field);                                   \
	} while (0)

/* Every hit is counted where its price is (budget.h). */
const volatile bool budgeted = false;

static __always_inline void count_hit(__u64 cookie)
{
	if ((aggregate & NO_HITS) || budgeted)
		return;
	__u32 id = ID(cookie);
	__u64 *n = bpf_map_lookup_elem(&hits, &id);

	if (n)
		COUNT(*n);
}

#endif
