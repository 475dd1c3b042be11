/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a thread, goroutine or coroutine is inside of (CREATE CONTEXT): the keys of the
 * contexts that its calls have begun. One acquisition, whose programs follow the functions
 * that begin and end a context, writes it (opening.h). Those of other acquisitions share
 * the maps, and read it when they send an event.
 *
 * A context is tied to the frame of the call that began it. What is further out is outside,
 * even if the end was not seen.
 */
#ifndef ENDOSCOPE_CONTEXT_H
#define ENDOSCOPE_CONTEXT_H

#include "counters.h"
#include "moment.h"

#define KEY_BYTES 64
#define KEY_WORDS (KEY_BYTES / sizeof(__u64))
#define MAX_NESTED 8 /* a power of two */

struct opened {
	__u64 below; /* the frame of the call that began it: struct frame */
	__u64 since; /* when it began */
	__u64 size;  /* 1 more than the bytes of the key; 0: it is NULL */
	__u64 key[KEY_WORDS];
};

/* Innermost last. */
struct inside {
	__u64 n;
	struct opened of[MAX_NESTED];
};

/* Of a thread, when it runs on its own stack; */
struct here {
	__u64 exec_id;   /* exec keeps the thread but not its memory */
	__u64 coroutine; /* on whose stack it runs. 0: its own */
	struct inside own;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct here);
} heres SEC(".maps");

/* and of a goroutine, by its g, or of a coroutine, by its number. */
struct elsewhere {
	__u64 id;
	__u32 tgid;
	__u32 go;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct elsewhere);
	__type(value, struct inside);
} elsewheres SEC(".maps");

/* What an event carries of a context, in words: its size and the key. 0: nothing. */
const volatile __u32 context_words = 0;

/* How the acquisition follows a context: bits, 0 if it follows none. */
enum {
	FOLLOWS = 1 << 0,
	BEGINS_LATE = 1 << 1, /* at the end of the call that begins it */
	ENDS_EARLY = 1 << 2,  /* at the start of the call that ends it */
	OF_CALL = 1 << 3,     /* the end is that of the call that began it */
	KEY_TEXT = 1 << 4,    /* the key is a text, else a number */
};
const volatile __u32 context = 0;

/* Whether the frame of a call is noted. */
#define CONTEXTUAL (context || context_words)

/* The frame of a call on another stack than the thread's own: nothing begins further in. */
#define INNERMOST_FRAME ~0ULL

/* inside_of returns what the event is inside of; NULL: nothing. */
static __always_inline struct inside *inside_of(const struct moment *m)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct elsewhere key = { .id = m->owner, .tgid = m->pid, .go = 1 };

	if (m->cookie & GO_REGISTERS)
		return bpf_map_lookup_elem(&elsewheres, &key);
	struct here *h = bpf_task_storage_get(&heres, task, NULL, 0);
	if (!h || h->exec_id != task->self_exec_id)
		return NULL;
	if (!h->coroutine)
		return &h->own;
	key.id = h->coroutine;
	key.go = 0;
	return bpf_map_lookup_elem(&elsewheres, &key);
}

/*
 * fill_context writes what the event is inside of. A call that began before a context and
 * is further in than it has been left.
 */
static __noinline int fill_context(__u64 *to, const struct moment *m)
{
	struct inside *in = inside_of(m);

	to[0] = 0;
	if (!in)
		return 0;
	for (int i = MAX_NESTED - 1; i >= 0; i--) {
		struct opened *o = &in->of[i];

		if (i >= in->n || o->below > m->below || o->since > m->start)
			continue;
		to[0] = o->size;
		if (context_words > 2)
			__builtin_memcpy(to + 1, o->key, KEY_BYTES);
		else
			to[1] = o->key[0];
		break;
	}
	return 0;
}

#endif
