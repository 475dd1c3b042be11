/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Contexts begin and end at events of a sequence (sequence.h) of the functions that do it.
 * The events are not sent.
 */
#ifndef ENDOSCOPE_OPENING_H
#define ENDOSCOPE_OPENING_H

#include "context.h"
#include "names.h"
#include "values.h"

/* The bits of a cookie that are results of tests elsewhere say what the function does. */
#define BEGINS (1ULL << 32)
#define ENDS (1ULL << 33)

/* A key that is a number: its bit in moment.absent, and its place in the moment. */
const volatile __u32 key_slot = 0, key_at = 0;

static const volatile struct inside nothing = {};

/* own_here returns what is known of the thread; NULL: out of memory. */
static __always_inline struct here *own_here(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct here *h = bpf_task_storage_get(&heres, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (h && h->exec_id != task->self_exec_id) {
		h->exec_id = task->self_exec_id;
		h->coroutine = 0;
		h->own.n = 0;
	}
	return h;
}

/* opened_at returns entry n of in, counted from 1. The mask is for the verifier. */
static __always_inline struct opened *opened_at(struct inside *in, __u64 n)
{
	n--;
	asm volatile("" : "+r"(n));
	return &in->of[n & (MAX_NESTED - 1)];
}

/*
 * close_from returns how many contexts remain without those that began at frames further
 * in than below, or there, if at is set.
 */
static __always_inline __u64 close_from(struct inside *in, __u64 n, __u64 below, bool at)
{
	for (int i = 0; i < MAX_NESTED && n; i++) {
		__u64 last = opened_at(in, n)->below;

		if (last < below || (last == below && !at))
			break;
		n--;
	}
	return n;
}

/* note_key sets the key of a context that begins at m. */
static __always_inline void note_key(struct opened *o, const struct moment *m)
{
	__builtin_memset(o->key, 0, sizeof(o->key));
	o->size = 0;
	if (context & KEY_TEXT) {
		char *own = bpf_task_storage_get(&scratch, bpf_get_current_task_btf(), NULL, 0);
		if (!own)
			return;
		struct texts *t = (struct texts *)(own + TEXTS_AT);
		__u64 size = t->length[0];
		if (size == NO_TEXT)
			return;
		AT_MOST(size, KEY_BYTES);
		if (!bpf_probe_read_kernel(o->key, size, t + 1))
			o->size = 1 + size;
		return;
	}
	if (!(m->absent >> key_slot & 1) && !bpf_probe_read_kernel(o->key, sizeof(__u64), (const void *)m + key_at))
		o->size = 1 + sizeof(__u64);
}

/* change_context handles an event of the functions that begin and end a context. */
static __always_inline void change_context(struct moment *m)
{
	struct elsewhere key = { .id = m->goroutine, .tgid = m->pid };
	struct inside *in = NULL;
	bool early = m->event == ENTER, late = m->event == LEAVE;
	bool begins = (m->cookie & BEGINS) && ((context & BEGINS_LATE) ? late : early);
	bool ends = (m->cookie & ENDS) && ((context & ENDS_EARLY) ? early : late);
	bool hashed = true;

	if (m->cookie & GO_REGISTERS) {
		key.id = m->owner;
		key.go = 1;
	} else if (!m->goroutine) {
		struct here *h = own_here();
		hashed = false;
		if (h)
			in = &h->own;
	}
	if (hashed)
		in = bpf_map_lookup_elem(&elsewheres, &key);
	if (!in && hashed && begins) {
		bpf_map_update_elem(&elsewheres, &key, (const void *)&nothing, BPF_NOEXIST);
		in = bpf_map_lookup_elem(&elsewheres, &key);
	}
	if (!in) {
		if (begins)
			COUNT_CALL(unopened);
		return;
	}
	__u64 n = in->n;
	if (n && m->event == GAP) {
		COUNT_CALL(unclosed);
		n = 0;
	} else if (context & OF_CALL) {
		n = close_from(in, n, m->below, true);
	} else if (ends) {
		n = close_from(in, n, m->below, false);
		n -= n > 0;
	}
	if (begins) {
		n = close_from(in, n, m->below, true);
		if (n >= MAX_NESTED) {
			COUNT_CALL(unopened);
		} else {
			struct opened *o = opened_at(in, n + 1);
			/* A sample may interrupt this, and sees complete entries only. */
			in->n = n;
			asm volatile("" ::: "memory");
			o->below = m->below;
			o->since = m->time;
			o->caller = m->caller;
			note_key(o, m);
			asm volatile("" ::: "memory");
			n++;
		}
	}
	in->n = n;
	if (hashed && !n)
		bpf_map_delete_elem(&elsewheres, &key);
}

/* switch_context notes that the thread runs on the stack of a coroutine; 0: on its own. */
static __always_inline void switch_context(__u64 coroutine)
{
	struct here *h = own_here();

	if (h)
		h->coroutine = coroutine;
	else
		COUNT_CALL(unopened);
}

/* end_context ends the contexts of a goroutine or coroutine that ends. */
static __always_inline void end_context(__u64 id, __u32 go)
{
	struct elsewhere key = { .id = id, .tgid = bpf_get_current_pid_tgid() >> 32, .go = go };

	bpf_map_delete_elem(&elsewheres, &key);
}

#endif
