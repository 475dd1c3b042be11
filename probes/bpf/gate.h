/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gates. A closed gate drops a query's calls while its join partner does not need them;
 * rows of one input may open the gate of another. Package gate defines gates and why
 * nothing is lost.
 */
#ifndef ENDOSCOPE_GATE_H
#define ENDOSCOPE_GATE_H

#include "counters.h"
#include "moment.h"
#include "self.h"

struct gate {
	__u64 until;  /* open until this time, by the events' clock; 0: closed */
	__u64 forced; /* open regardless of the time */
	__u64 opened; /* ns for which it was opened so far */
	__u64 times;  /* how often it was opened when closed */
	__u64 unused[4];
};

/* Shared by the acquisitions of one query: the loader inserts the query's map. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct gate);
} gates SEC(".maps");

/* With GATED: the gate of these calls. */
const volatile __u32 own_gate = 0;

/* The gates that rows open, and for how long after each row. */
#define MAX_OPENED 4
const volatile __u32 opens = 0; /* how many */
const volatile __u64 opened_gates[MAX_OPENED] = {};
const volatile __u64 opened_within[MAX_OPENED] = {};

/* A gate is opened for 1/16 and SPARE_NS longer than needed, so that not every row has
 * to write it. */
#define SPARE_NS 1000000

/*
 * admitted reports whether a call that begins now passes the query's gate. The clock must
 * be read before the gate: the gate's address depends on the time, which orders them.
 */
static __always_inline bool admitted(void)
{
	if (!(options & GATED) && !opens)
		return true;
	COUNT_CALL(offered);
	if (!(options & GATED))
		return true;
	__u32 index = own_gate;
	struct gate *g = bpf_map_lookup_elem(&gates, &index);
	if (!g)
		return true;
	if (ONCE(g->forced))
		return true;
	__u64 until = ONCE(g->until);
	if (until) {
		__u64 now = bpf_ktime_get_boot_ns();
		if (now <= until)
			return true;
		index += now >> 63;
		g = bpf_map_lookup_elem(&gates, &index);
		if (g && now <= ONCE(g->until))
			return true;
	}
	COUNT_CALL(shut);
	return false;
}

/* Global functions, like the searches of calls.h: the verifier checks each once. */

__noinline __u64 covered_to(void)
{
	__u64 to = ~0ULL;

	for (__u32 i = 0; i < MAX_OPENED; i++) {
		if (i >= opens)
			break;
		__u32 index = opened_gates[i];
		struct gate *g = bpf_map_lookup_elem(&gates, &index);
		if (!g)
			continue;
		__u64 until = ONCE(g->until), within = opened_within[i];
		__u64 t = until > within ? until - within : 0;
		if (t < to)
			to = t;
	}
	return to;
}

/*
 * covered returns the latest time of a row after which all gates that it opens stay open
 * long enough. It must be called before the clock is read.
 */
static __always_inline __u64 covered(void)
{
	return opens ? covered_to() : ~0ULL;
}

/* Attempts to extend a gate. All fail only if as many others extended it meanwhile. */
#define OPEN_TRIES 4

/* open_gates opens the gates for a row whose time is about now. */
__noinline int open_gates(__u64 now)
{
	for (__u32 i = 0; i < MAX_OPENED; i++) {
		if (i >= opens)
			break;
		__u32 index = opened_gates[i];
		struct gate *g = bpf_map_lookup_elem(&gates, &index);
		if (!g)
			continue;
		__u64 to = now + opened_within[i] + (opened_within[i] >> 4) + SPARE_NS;
		__u64 was = ONCE(g->until);
		for (int k = 0; k < OPEN_TRIES && was < to; k++) {
			__u64 seen = __sync_val_compare_and_swap(&g->until, was, to);
			if (seen != was) {
				was = seen;
				continue;
			}
			if (was < now) {
				COUNT(g->times);
				was = now;
			}
			__sync_fetch_and_add(&g->opened, to - was);
			break;
		}
	}
	return 0;
}

/* Retries of a program that is interrupted between opening and reading the clock. */
#define COVER_TRIES 8

/*
 * cover opens the gates for a selected event, unless they are open: to is the result of
 * covered() before the event's time was read. If they were closed, the time is read again
 * after opening them, and the query's condition is tested again. Returns the result.
 */
static __always_inline bool cover(struct moment *m, __u64 to, bool returned)
{
	if (!opens || m->time <= to)
		return true;
	for (int i = 0; i < COVER_TRIES; i++) {
		open_gates(bpf_ktime_get_boot_ns());
		to = covered();
		m->time = bpf_ktime_get_boot_ns();
		if (m->time <= to)
			break;
	}
	if (!returned) {
		m->start = m->time;
		return test_entry(m);
	}
	conclude(m, m->time);
	return test_return(m);
}

#endif
