/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The first stage of an aggregate: selected events are folded into the state of their
 * group, and only those that cannot be are sent.
 *
 * States are per CPU. There are two slots of them, for two ranges of time, so that user
 * space can read one while events are folded into the other; see aggregation in package
 * uprobe.
 */
#ifndef ENDOSCOPE_AGGREGATE_H
#define ENDOSCOPE_AGGREGATE_H

#include "copy.h"
#include "recall.h"
#include "wait.h"

/* Of dense states: the number of groups in one slot of one CPU, and the number of CPUs. */
const volatile __u32 groups = 1, cpus = 1;

/* The number of words of a group's key after the first; the number of sketches of a group. */
const volatile __u32 key_words = 0, sketches = 0;

/*
 * Which events belong to which slot. Bits 2 to 63 are the (signed) time at which a pane
 * begins, bit 0 is its slot, and bit 1 says that the next pane has the other slot. User
 * space writes it; programs read it once for each event.
 */
__u64 panes = 0;
#define SLOT 1
#define NEXT_TOO 2

/*
 * When a query last joined or left the shared acquisition. Calls that began before are
 * sent singly, as they do not belong to all queries. User space writes this before
 * `panes`; programs read it after.
 */
__u64 divided = 0;

/* How long a pane is, ns. */
const volatile __u64 pane = 1ULL << 62;

/*
 * Of quantiles: the word of a group's state that counts the samples of a sketch, plus 1; 0
 * for a histogram. The first exact_samples values of a group are kept as samples, while
 * there is room for them in the slot; later ones are counted in buckets.
 */
#define SKETCHES 3
const volatile __u32 exact_samples = 0;
const volatile __u32 sample_counts[SKETCHES] = {};

/* The room for samples in a slot, and how many were written to it, each in its cache line. */
const volatile __u32 sample_room = 0;
struct {
	__u64 n;
	__u64 unused[7];
} sampled[2] __attribute__((aligned(64))) = {};

/*
 * Samples, of both slots: the sketch plus 1 with the function above it, key_words words of
 * the group's key, and the value. The first word is 0 where nothing was written.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64));
} samples SEC(".maps");

/* Dense states: by slot, CPU, and function if there is more than one group. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* these, and sizes, are set by the loader */
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u64));
} states SEC(".maps");

/*
 * States by key, and counts by key and bucket. Where there are quantiles, a bucket has two
 * more words: the largest value with its sign bit inverted, and the largest complement of
 * that, so that 0 is less than each.
 */
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
 * The words derived from an event. The first are the group's key: the CPU with the
 * function above it, then key_words others. The word after the key is the bucket, which
 * completes the key of a bucket's count. The value of a sample is behind the buckets.
 */
#define MAX_KEY 8
#define MAX_SKETCHES SKETCHES
#define BUCKETS (1 + MAX_KEY + 1)
#define SAMPLES (BUCKETS + MAX_SKETCHES)
#define WORDS 23
#define NO_BUCKET ~0ULL

/* They belong to the thread, as frames are small: frames.h. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64[WORDS]);
} derived_words SEC(".maps");

/* The initial state of a group. */
#define MAX_STATE 32
static const volatile __u64 zeros[MAX_STATE] = {};

/*
 * Package codegen generates the bodies. derive computes the words, and returns whether the
 * event can be folded at all; update folds it.
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

/* slot_of returns the slot of the event; -1: its pane has none. */
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
	/* Only a program that interrupted this one can have added the group. */
	bpf_map_update_elem(map, key, (const void *)zeros, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, key);
}

/* room_for returns memory for a sample; NULL if the slot is full. */
static __always_inline __u64 *room_for(int slot)
{
	__u64 *n = &sampled[slot & 1].n;

	/* A full slot is not written to, so that its counter stays in every CPU's cache. */
	if (*(volatile __u64 *)n >= sample_room)
		return NULL;
	__u32 index = __sync_fetch_and_add(n, 1);
	if (index >= sample_room)
		return NULL;
	index += slot ? sample_room : 0;
	return bpf_map_lookup_elem(&samples, &index);
}

/*
 * raise sets a word to a value if it is less. It tries again if a program that interrupted
 * this one raised it; that does not happen eight times.
 */
static __always_inline void raise(__u64 *at, __u64 value)
{
	for (int i = 0; i < 8; i++) {
		__u64 old = *(volatile __u64 *)at;
		if (old >= value || __sync_val_compare_and_swap(at, old, value) == old)
			return;
	}
}

/*
 * fold folds the event into its group, entirely or not at all; returns whether it did.
 *
 * On a preemptible kernel a program can interrupt another on the same CPU. It then finds
 * the state locked, and its event is sent instead. Counts are single additions and need no
 * lock.
 */
static __noinline bool fold(struct moment *m)
{
	__u64 *words = NULL, *bucket[MAX_SKETCHES], *sample[MAX_SKETCHES], *state = NULL;
	int slot = slot_of(m);

	if (slot < 0)
		return false;
	if ((options & AT_RETURN) && m->start < *(volatile __u64 *)&divided)
		return false;
	if (aggregate & (DERIVED | HASHED | SKETCHED)) {
		words = bpf_task_storage_get(&derived_words, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (!words)
			return false;
	}
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
		bucket[i] = sample[i] = NULL;
		if (i >= sketches || words[BUCKETS + i] == NO_BUCKET)
			continue;
		if (sample_counts[i] && state && ((volatile __u64 *)state)[sample_counts[i] - 1] < exact_samples) {
			sample[i] = room_for(slot);
			if (sample[i])
				continue;
		}
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
	for (int i = 0; i < MAX_SKETCHES; i++) {
		if (bucket[i]) {
			COUNT(*bucket[i]);
			if (sample_counts[i]) {
				__u64 value = words[SAMPLES + i] ^ 1ULL << 63;
				raise(bucket[i] + 1, value);
				raise(bucket[i] + 2, ~value);
			}
		}
		if (i < sketches && sample_counts[i] && state && sample[i]) {
			for (int k = 0; k < MAX_KEY; k++)
				if (k < key_words)
					sample[i][1 + k] = words[1 + k];
			sample[i][1 + key_words] = words[SAMPLES + i];
			sample[i][0] = (words[0] >> 32) << 32 | (i + 1);
			COUNT(state[sample_counts[i] - 1]);
		}
	}
	return true;
full:
	COUNT_CALL(ungrouped);
	return false;
}

/*
 * emit folds a selected event into an aggregate, or sends it. slot is the address of the
 * call's return address on the stack; 0: it has returned.
 */
static __always_inline void emit(struct pt_regs *ctx, struct moment *m, __u64 slot)
{
	if (aggregate) {
		if (waits)
			bpf_rcu_read_lock();
		bool folded = fold(m);
		if (waits)
			bpf_rcu_read_unlock();
		if (folded)
			return;
		if (aggregate & UNTIMED)
			m->time = bpf_ktime_get_boot_ns();
	}
	if (options & SEND_CALLER)
		m->caller = caller_of(ctx, slot);
	enum sent s = LIMITED;
	if (!(options & SEND_STACK))
		s = send(m);
	else if (within_rate(m->time))
		s = send_copied(ctx, m, slot);
	if (recalls && s == SENT)
		fire(m);
	count_unsent(s);
}

#endif
