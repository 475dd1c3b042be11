/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Gates: a query's calls may be shut out while nobody needs them, and may open
 * the gates of others. Package gate says what a gate is and why nothing is lost.
 */
#ifndef ENDOSCOPE_GATE_H
#define ENDOSCOPE_GATE_H

#include "counters.h"
#include "moment.h"
#include "self.h"

struct gate {
	__u64 until;  /* open up to here, by the events' clock; 0: shut for long */
	__u64 forced; /* open whatever the time */
	__u64 opened; /* ns for which it was opened so far */
	__u64 times;  /* how often it was found shut */
	__u64 unused[4];
};

/* Common to the acquisitions of one query: the loader puts its map here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct gate);
} gates SEC(".maps");

/* With GATED: the gate that calls pass. */
const volatile __u32 own_gate = 0;

/* The gates that rows open, and for how long behind each. */
#define MAX_OPENED 4
const volatile __u32 opens = 0; /* how many */
const volatile __u64 opened_gates[MAX_OPENED] = {};
const volatile __u64 opened_within[MAX_OPENED] = {};

/* A gate is opened for a little longer than it must be, so that not each row
 * has to: by 1/16 and this. */
#define SPARE_NS 1000000

#define ONCE(x) (*(volatile __typeof__(x) *)&(x))

/*
 * admitted reports whether a call that begins now passes the query's gate. The
 * clock is read before the gate, whose address therefore depends on what it says.
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

/* Global functions, like the searches of calls.h: the verifier looks at each once. */

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
 * covered is up to which time all gates that a row opens are open for long
 * enough behind it. It is to be asked before the clock.
 */
static __always_inline __u64 covered(void)
{
	return opens ? covered_to() : ~0ULL;
}

/* Which only fails when as many others have just put off the time. */
#define OPEN_TRIES 4

/* open_gates opens the gates behind a row of about now. */
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

/* How often a program that is held up between opening and reading the clock tries again. */
#define COVER_TRIES 8

/*
 * cover opens the gates behind a wanted event, unless they are open: to is what
 * covered() was before the event's time was read. Where they were not, the time
 * is read again once they are, and the event may thereby be wanted no longer:
 * cover returns whether it is.
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
