/* SPDX-License-Identifier: GPL-2.0 */
/* What threads, goroutines and coroutines are inside of: context.h. Samples of stacks read it, too. */
#ifndef ENDOSCOPE_INSIDE_H
#define ENDOSCOPE_INSIDE_H

#include "kernel.h"
#include <bpf/bpf_helpers.h>

#define KEY_BYTES 64
#define KEY_WORDS (KEY_BYTES / sizeof(__u64))
#define MAX_NESTED 8 /* a power of two */

struct opened {
	__u64 below; /* the frame of the call that began it: struct frame */
	__u64 since; /* when it began */
	__u64 size;  /* 1 more than the bytes of the key; 0: it is NULL */
	__u64 caller; /* what that call returns to; 0: not known */
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

/* inside_elsewhere returns what a goroutine or coroutine is inside of; NULL: nothing. */
static __always_inline struct inside *inside_elsewhere(__u64 id, __u32 tgid, bool go)
{
	struct elsewhere key = { .id = id, .tgid = tgid, .go = go };

	return bpf_map_lookup_elem(&elsewheres, &key);
}

/* inside_here returns what a thread, with the coroutine that it runs, is inside of; NULL: nothing. */
static __always_inline struct inside *inside_here(struct task_struct *task)
{
	struct here *h = bpf_task_storage_get(&heres, task, NULL, 0);

	if (!h || h->exec_id != task->self_exec_id)
		return NULL;
	return h->coroutine ? inside_elsewhere(h->coroutine, task->tgid, false) : &h->own;
}

/* The frame of a call on another stack than the thread's own: nothing begins further in. */
#define INNERMOST_FRAME ~0ULL

#endif
