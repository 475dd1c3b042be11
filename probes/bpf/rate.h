/* SPDX-License-Identifier: GPL-2.0 */
/* The limit of events per second of a query. */
#ifndef ENDOSCOPE_RATE_H
#define ENDOSCOPE_RATE_H

#include "query.h"

/*
 * A token bucket that holds one second's worth of events. It is stored as the time at
 * which the tokens taken so far are earned, so nothing has to refill it. CPUs take tokens
 * in chunks of about a millisecond's worth: one CPU may use the whole rate while others
 * are idle, and an event costs one decrement of per-CPU memory.
 */
const volatile __s64 rate_chunk = 0; /* events; 0: any number of them */
const volatile __u64 rate_chunk_ns = 0; /* time in which a chunk is earned */

#define RATE_BUCKET_NS 1000000000ULL

/* When the tokens taken so far are earned, by the events' clock. */
__u64 rate_paid = 0;

/* Tokens left of the CPU's chunk. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __s64);
} rate_left SEC(".maps");

/*
 * Attempts to take a chunk. All fail only if as many other CPUs took chunks meanwhile.
 * The event then passes, so that a query below its rate loses nothing.
 */
#define RATE_TRIES 8

/* within_rate reports whether the query may send an event, at time now. */
static __always_inline bool within_rate(__u64 now)
{
	if (!rate_chunk)
		return true;
	__u32 zero = 0;
	__s64 *left = bpf_map_lookup_elem(&rate_left, &zero);
	if (!left)
		return true;
	/* A program that interrupts another may write back an older value, which lets
	 * a few more events pass; the value is never below 0. */
	__s64 n = *(volatile __s64 *)left;
	if (n > 0) {
		*(volatile __s64 *)left = n - 1;
		return true;
	}
	for (int i = 0; i < RATE_TRIES; i++) {
		__u64 was = *(volatile __u64 *)&rate_paid;
		__u64 paid = was + RATE_BUCKET_NS < now ? now - RATE_BUCKET_NS : was;
		if (paid + rate_chunk_ns > now)
			return false;
		if (__sync_val_compare_and_swap(&rate_paid, was, paid + rate_chunk_ns) == was) {
			*(volatile __s64 *)left = rate_chunk - 1;
			return true;
		}
	}
	return true;
}

#endif
