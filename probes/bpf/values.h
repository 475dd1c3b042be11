/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Typed values of calls: arguments and results by their types, and texts behind pointers.
 * Package codegen generates the bodies of the two functions that read them.
 *
 * Numbers are stored in the moment's args or retval. Texts, copies of objects, and numbers
 * for which there is no room among the args, are stored as texts in memory of the thread
 * (scratch), which no other program of the CPU can overwrite, and follow their event in
 * the ring:
 *
 *   room for what precedes the texts | texts of this call | texts of calls under way
 *   TEXTS_AT bytes                     text_bytes           text_bytes each
 *
 * The calls under way are those of `threads`, by number. Where exits are probed, their
 * texts follow the call in open_calls.
 */
#ifndef ENDOSCOPE_VALUES_H
#define ENDOSCOPE_VALUES_H

#include "counters.h"
#include "moment.h"
#include "wait.h"

#define TEXTS 15
#define NO_TEXT 0xffff

/* The texts of a call. */
struct texts {
	__u16 size;          /* bytes that follow */
	__u16 length[TEXTS]; /* of each, or NO_TEXT; the texts follow, concatenated */
};

/* The most bytes of a call's texts, struct texts included, and the number of calls under
 * way whose texts are kept. */
const volatile __u32 text_bytes = sizeof(struct texts);
const volatile __u32 text_slots = 0;

/* Bit set of the args that hold parts of the result: NULL where nothing is returned. */
const volatile __u32 result_args = 0;

/* moment.absent: bits of the args, the retval and the texts that are NULL. Bits from 24
 * up are results of tests of texts. */
#define ALL_ABSENT 0x7fffff

/* Room in front of the texts for an event or a call under way. */
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
 * read_entry and read_return read the values of a call at its entry and at its return. t
 * is NULL in queries without texts.
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

/* The same, waiting for memory that is not present: only in sleepable programs. */
static __noinline int fetch_entry(struct moment *m, const struct pt_regs *ctx, struct texts *t)
{
	int failed = 0;

	asm volatile("" : "+r"(failed) : "r"(m), "r"(ctx), "r"(t) : "memory");
	return failed;
}

static __noinline int fetch_return(struct moment *m, const struct pt_regs *ctx, struct texts *t)
{
	int failed = 0;

	asm volatile("" : "+r"(failed) : "r"(m), "r"(ctx), "r"(t) : "memory");
	return failed;
}

/* Not inlined, as the frames of programs are large. */
static __noinline int await_entry(struct moment *m, const struct pt_regs *ctx, struct texts *t)
{
	struct wait w;

	begin_wait(&w);
	int failed = fetch_entry(m, ctx, t);
	end_wait(&w);
	return failed;
}

static __noinline int await_return(struct moment *m, const struct pt_regs *ctx, struct texts *t)
{
	struct wait w;

	begin_wait(&w);
	int failed = fetch_return(m, ctx, t);
	end_wait(&w);
	return failed;
}

/* own_scratch returns the thread's memory for texts; NULL: out of memory. */
static __always_inline char *own_scratch(struct task_struct *task)
{
	return bpf_task_storage_get(&scratch, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

/* size_of returns the size of t with its texts. The bound is for the verifier: see AT_MOST. */
static __always_inline __u64 size_of(const struct texts *t)
{
	__u64 size = sizeof(*t) + t->size, most = text_bytes;

	AT_MOST(size, most);
	return size;
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

/* read_values reads the values of a call that the query uses, at its entry. */
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
	int failed = read_entry(m, ctx, t);
	if (waits && (failed & UNREADABLE)) {
		m->absent = 0;
		if (t)
			no_texts(t);
		failed = await_entry(m, ctx, t);
	}
	count_failed(failed);
}

/* kept_texts returns where those of call number n are kept. Verifiers before Linux 6.8 know no
 * bounds of a product of 32 bits. */
static __always_inline struct texts *kept_texts(struct texts *t, __u32 n)
{
	__u64 slot = n + 1;

	asm volatile("" : "+r"(slot)); /* it has 64 bits for the compiler, too */
	return (struct texts *)((char *)t + slot * text_bytes);
}

/* keep_texts keeps the texts of the thread's call number n until it returns. */
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
	bpf_probe_read_kernel(kept_texts(t, n), size_of(t), t);
}

/*
 * recall_texts copies kept texts to t: those at kept, or if that is NULL, those of the
 * thread's call number n.
 */
static __always_inline void recall_texts(struct texts *t, const struct texts *kept, __u32 n)
{
	if (!kept && (options & KEEP_TEXTS) && n < text_slots)
		kept = kept_texts(t, n);
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
		/* Without this, clang adds the offset before the NULL check. */
		asm volatile("" : "+r"(own));
		t = (struct texts *)(own + TEXTS_AT);
		recall_texts(t, kept, n);
	}
	if (!(options & USE_RESULT))
		return;
	if (m->cookie & NO_RETVAL) {
		m->absent |= result_args;
		return;
	}
	__u64 absent = m->absent, retval = m->retval;
	int failed = read_return(m, ctx, t);
	if (waits && (failed & UNREADABLE)) {
		m->absent = absent;
		m->retval = retval;
		if (t)
			recall_texts(t, kept, n);
		failed = await_return(m, ctx, t);
	}
	count_failed(failed);
}

#endif
