/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Values that a query reads of calls besides registers as they are: arguments and
 * results by their types, and texts that pointers lead to. How is in the bodies of two
 * functions, which package codegen makes.
 *
 * Numbers become one of the moment's args, or its retval. Texts lie in memory of the
 * thread's own (scratch), where no other program of the CPU can get in between, and go
 * into the ring behind their event:
 *
 *   room for what precedes the texts | texts of this call | texts of calls under way
 *   TEXTS_AT bytes                     text_bytes           text_bytes each
 *
 * Those of calls under way are the calls' of `threads`, by number. Where exits are
 * probed they lie behind the call in open_calls.
 */
#ifndef ENDOSCOPE_VALUES_H
#define ENDOSCOPE_VALUES_H

#include "counters.h"
#include "moment.h"

#define TEXTS 7
#define NO_TEXT 0xffff

/* The texts of a call. */
struct texts {
	__u16 size;          /* bytes that follow */
	__u16 length[TEXTS]; /* of each, or NO_TEXT; they follow one behind the other */
};

/* What a query's programs take for texts at most, struct texts included; and of how
 * many calls under way they are kept. */
const volatile __u32 text_bytes = sizeof(struct texts);
const volatile __u32 text_slots = 0;

/* Which of the args are of results: where there are none they are NULL. */
const volatile __u32 result_args = 0;

/* A moment's absent: bits of the args, the retval and the texts that are NULL; those
 * from 16 on are of tests of texts. */
#define ALL_ABSENT 0x7fff

/* Room for what goes in front of texts: an event, or a call under way. */
#define TEXTS_AT 512

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64); /* its size is set by the loader */
} scratch SEC(".maps");

/* What the reading functions return: bits. */
enum {
	UNREADABLE = 1 << 0, /* memory could not be read */
	CUT = 1 << 1,        /* a text was longer than there is room for */
	TOO_LARGE = 1 << 2,  /* an unsigned number does not fit */
};

/*
 * read_entry and read_return note what is known of a call's values at its entry, and at
 * its return. t is NULL in queries without texts.
 */
static __noinline int read_entry(struct moment *m, const struct pt_regs *ctx, struct texts *t)
{
	int failed = 0;

	asm volatile("" : "+r"(failed) : "r"(m), "r"(ctx), "r"(t) : "memory");
	return failed;
}

static __noinline int read_return(struct moment *m, const struct pt_regs *ctx, struct texts *t)
{
	int failed = 0;

	asm volatile("" : "+r"(failed) : "r"(m), "r"(ctx), "r"(t) : "memory");
	return failed;
}

/* own_scratch is the thread's memory for texts, NULL if there is none. */
static __always_inline char *own_scratch(struct task_struct *task)
{
	return bpf_task_storage_get(&scratch, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* size_of is what t takes in all. The bound is for the verifier. */
static __always_inline __u64 size_of(const struct texts *t)
{
	__u64 size = sizeof(*t) + t->size;

	return size < text_bytes ? size : text_bytes;
}

static __always_inline void no_texts(struct texts *t)
{
	__builtin_memset(t, 0xff, sizeof(*t));
	t->size = 0;
}

static __always_inline void count_failed(int failed)
{
	if (failed & UNREADABLE)
		COUNT_CALL(unreadable);
	if (failed & CUT)
		COUNT_CALL(cut);
	if (failed & TOO_LARGE)
		COUNT_CALL(too_large);
}

/* read_values notes the values that the query wants of a call at its entry. */
static __always_inline void read_values(struct moment *m, const struct pt_regs *ctx, struct task_struct *task)
{
	struct texts *t = NULL;

	if (!(options & USE_VALUES))
		return;
	if (options & USE_TEXTS) {
		char *own = own_scratch(task);
		if (!own) {
			m->absent = ALL_ABSENT;
			COUNT_CALL(unreadable);
			return;
		}
		t = (struct texts *)(own + TEXTS_AT);
		no_texts(t);
	}
	count_failed(read_entry(m, ctx, t));
}

/* keep_texts keeps the texts of the thread's call of that number until it returns. */
static __always_inline void keep_texts(struct task_struct *task, __u32 n)
{
	if (!(options & KEEP_TEXTS))
		return;
	char *own = bpf_task_storage_get(&scratch, task, NULL, 0);
	if (!own)
		return;
	if (n >= text_slots) {
		COUNT_CALL(unkept);
		return;
	}
	struct texts *t = (struct texts *)(own + TEXTS_AT);
	bpf_probe_read_kernel((char *)t + (n + 1) * text_bytes, size_of(t), t);
}

/*
 * recall_texts makes kept texts those of this call; without kept those of the thread's
 * call of number n.
 */
static __always_inline void recall_texts(struct texts *t, const struct texts *kept, __u32 n)
{
	if (!kept && (options & KEEP_TEXTS) && n < text_slots)
		kept = (struct texts *)((char *)t + (n + 1) * text_bytes);
	if (kept)
		bpf_probe_read_kernel(t, size_of(kept), kept);
	else
		no_texts(t);
}

/* read_result is read_values at the return. */
static __always_inline void read_result(struct moment *m, const struct pt_regs *ctx, struct task_struct *task, const struct texts *kept, __u32 n)
{
	struct texts *t = NULL;

	if (options & USE_TEXTS) {
		char *own = own_scratch(task);
		if (!own) {
			m->absent = ALL_ABSENT;
			COUNT_CALL(unreadable);
			return;
		}
		/* Else clang adds before it looks whether there is anything. */
		asm volatile("" : "+r"(own));
		t = (struct texts *)(own + TEXTS_AT);
		recall_texts(t, kept, n);
	}
	if (!(options & USE_RESULT))
		return;
	if (m->cookie & NO_RETVAL)
		m->absent |= result_args;
	else
		count_failed(read_return(m, ctx, t));
}

#endif
