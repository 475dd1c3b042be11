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
#include "inside.h"
#include "moment.h"

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

/* inside_of returns what the event is inside of; NULL: nothing. */
static __always_inline struct inside *inside_of(const struct moment *m)
{
	return (m->cookie & GO_REGISTERS) ? inside_elsewhere(m->owner, m->pid, true) : inside_here(bpf_get_current_task_btf());
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
