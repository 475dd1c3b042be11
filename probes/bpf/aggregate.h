/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The first stage of an aggregate: wanted events are folded into the state of
 * their group here, and only those that cannot be go to the reader.
 *
 * States are of one CPU each. There are two slots of them, for two ranges of
 * time, so that user space can read one while events go on into the other; see
 * aggregation of package uprobe.
 */
#ifndef ENDOSCOPE_AGGREGATE_H
#define ENDOSCOPE_AGGREGATE_H

#include "copy.h"

/* States of one slot and CPU, where they are dense, and of how many CPUs. */
const volatile __u32 groups = 1, cpus = 1;

/* Words of a group's key behind the first; lists of buckets of a group. */
const volatile __u32 key_words = 0, sketches = 0;

/*
 * Which events go where. Bits 2 to 63 are the (signed) time at which a pane
 * begins, of which bit 0 is the slot; bit 1 says that the pane behind it has
 * the other slot. User space writes it, programs read it once for each event.
 */
__u64 panes = 0;
#define SLOT 1
#define NEXT_TOO 2

/*
 * When the query was last joined by another. Calls that began before go singly,
 * for they are not both queries'. User space writes this before `panes`, and
 * programs read it after.
 */
__u64 divided = 0;

/* How long a pane is, ns. */
const volatile __u64 pane = 1ULL << 62;

/* Dense states: by slot, CPU, and function, if there is more than one group. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* these, and sizes, are set by the loader */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64));
} states SEC(".maps");

/* States by key, and counts by key and bucket. */
struct by_key {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u64));
	__uint(value_size, sizeof(__u64));
};
struct by_key states_0 SEC(".maps"), states_1 SEC(".maps");
struct by_key buckets_0 SEC(".maps"), buckets_1 SEC(".maps");

/*
 * The words that are derived from an event. The first ones are a group's key:
 * the CPU and, above it, the function, then key_words others. Behind them is
 * room for a bucket, which makes the key of a count.
 */
#define MAX_KEY 8
#define MAX_SKETCHES 3
#define BUCKETS (1 + MAX_KEY + 1)
#define WORDS 20
#define NO_BUCKET ~0ULL

/* What a group's state is before its first event. */
#define MAX_STATE 32
static const volatile __u64 zeros[MAX_STATE] = {};

/*
 * Package codegen makes the bodies of these. derive says whether the event can
 * be folded in at all; update does it.
 */
static __noinline int derive(const struct moment *m, __u64 *words)
{
	int ok = 1;

	asm volatile("" : "+r"(ok) : "r"(m), "r"(words) : "memory");
	return ok;
}

static __noinline int update(const struct moment *m, __u64 *state, const __u64 *words)
{
	asm volatile("" :: "r"(m), "r"(state), "r"(words) : "memory");
	return 0;
}

/* slot_of is the slot of the event; -1: none is open for it. */
static __always_inline int slot_of(const struct moment *m)
{
	__u64 p = *(volatile __u64 *)&panes;

	if (aggregate & UNTIMED)
		return p & SLOT;
	__u64 since = m->time - ((__s64)p >> 2);
	if (since < pane)
		return p & SLOT;
	if ((p & NEXT_TOO) && since - pane < pane)
		return ~p & SLOT;
	return -1;
}

static __always_inline __u64 *find(void *map, const void *key)
{
	__u64 *value = bpf_map_lookup_elem(map, key);

	if (value)
		return value;
	/* Nobody else adds this CPU's groups but a program that interrupted us. */
	bpf_map_update_elem(map, key, (const void *)zeros, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/*
 * fold folds the event into its group, wholly or not at all; false: not at all.
 *
 * Where the kernel is preemptible a program can be interrupted by another one
 * of its CPU, which then finds the state locked and leaves its event to the
 * reader. Counts are single additions, and need no lock.
 */
static __noinline bool fold(struct moment *m)
{
	__u64 words[WORDS], *bucket[MAX_SKETCHES], *state = NULL;
	int slot = slot_of(m);

	if (slot < 0)
		return false;
	if ((options & AT_RETURN) && m->start < *(volatile __u64 *)&divided)
		return false;
	if ((aggregate & DERIVED) && !derive(m, words))
		return false;
	__u32 cpu = bpf_get_smp_processor_id();
	if (aggregate & (HASHED | SKETCHED))
		words[0] = cpu | ((aggregate & BY_FUNCTION) ? (__u64)ID(m->cookie) << 32 : 0);

	if (aggregate & HASHED) {
		if (slot)
			state = find(&states_1, words);
		else
			state = find(&states_0, words);
		if (!state)
			goto full;
	} else if (aggregate & DENSE) {
		__u32 index = ((__u32)slot * cpus + cpu) * groups;
		if (aggregate & BY_FUNCTION)
			index += ID(m->cookie);
		state = bpf_map_lookup_elem(&states, &index);
		if (!state)
			return false;
	}
	for (int i = 0; i < MAX_SKETCHES; i++) {
		bucket[i] = NULL;
		if (i >= sketches || words[BUCKETS + i] == NO_BUCKET)
			continue;
		words[1 + key_words] = words[BUCKETS + i];
		if (slot)
			bucket[i] = find(&buckets_1, words);
		else
			bucket[i] = find(&buckets_0, words);
		if (!bucket[i])
			goto full;
	}
	if (aggregate & UPDATED) {
		if (__sync_lock_test_and_set(state, 1))
			return false;
		update(m, state, words);
		*(volatile __u64 *)state = 0;
	} else if (state) {
		COUNT(*state);
	}
	for (int i = 0; i < MAX_SKETCHES; i++)
		if (bucket[i])
			COUNT(*bucket[i]);
	return true;
full:
	COUNT_CALL(ungrouped);
	return false;
}

/*
 * emit is where a wanted event goes: into an aggregate, or to the reader. slot is
 * where the call's return address lies on the stack; 0: it has returned.
 */
static __always_inline void emit(struct pt_regs *ctx, struct moment *m, __u64 slot)
{
	if (aggregate) {
		if (fold(m))
			return;
		if (aggregate & UNTIMED)
			m->time = bpf_ktime_get_boot_ns();
	}
	if (options & SEND_CALLER)
		m->caller = caller_of(ctx, slot);
	if (!(options & SEND_STACK))
		count_unsent(send(m));
	else if (!within_rate(m->time))
		count_unsent(LIMITED);
	else
		count_unsent(send_copied(ctx, m, slot));
}

#endif
