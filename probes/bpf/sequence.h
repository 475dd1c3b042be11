/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sequence of a thread's events (function_call): entries and returns, calls
 * that were abandoned, and gaps, in the order in which they happened.
 *
 * The order is that of the ring buffer, in which a thread's records lie as it
 * reserved them. Whatever follows calls on a stack per thread (calls.h) can
 * have its sequence told: entered() at each entry, tell(LEAVE) when a call
 * that was taken from the stack returns; abandon() is called by the stack.
 */
#ifndef ENDOSCOPE_SEQUENCE_H
#define ENDOSCOPE_SEQUENCE_H

#include "event.h"
#include "calls.h"
#include "standby.h"

/* Names of events as they lie in memory: conditions compare them as text. */
#define NAME(a, b, c, d, e, f) \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40)
#define ENTER NAME('E', 'N', 'T', 'E', 'R', 0)
#define LEAVE NAME('L', 'E', 'A', 'V', 'E', 0)
#define UNWIND NAME('U', 'N', 'W', 'I', 'N', 'D')
#define GAP NAME('G', 'A', 'P', 0, 0, 0)

/* While only some functions are probed, the rest would be missing unmarked. */
static __always_inline bool is_closed(void)
{
	return (options & SEQUENCE) && !open;
}

/* One copy of what is large. */
static __noinline enum sent send_event(const struct moment *m)
{
	return send(m);
}

/* mark sends a gap in front of m, if gaps are wanted. No test of a function's names holds of it. */
static __always_inline enum sent mark(struct moment *m)
{
	__u64 cookie = m->cookie;
	enum sent s = SENT;

	m->cookie = 0;
	m->event = GAP;
	if (test_entry(m) && test_return(m))
		s = send_event(m);
	m->cookie = cookie;
	return s;
}

/*
 * tell sends an event of a wanted call, if the event is wanted. None is sent
 * across a gap that could not be marked.
 */
static __noinline int tell(struct thread *t, struct moment *m, __u64 event)
{
	enum sent s = t->gap ? mark(m) : SENT;

	if (s == SENT)
		t->gap = 0;
	m->event = event;
	if (!test_return(m))
		return 0;
	if (s == SENT)
		s = send_event(m);
	if (s != SENT) {
		count_unsent(s);
		t->gap = 1;
	}
	return 0;
}

/*
 * entered tells an entry. A call whose return will not be seen is left out
 * whole, so that every ENTER has its end. Without memory for its thread there
 * is nowhere to note the gap: it is marked at once.
 */
static __always_inline void entered(struct thread *t, struct moment *m, bool wanted, bool armed)
{
	if (!wanted)
		return;
	if (armed)
		tell(t, m, ENTER);
	else if (t)
		t->gap = 1;
	else
		mark(m);
}

static __always_inline void abandon(struct thread *t, struct call *c, __u64 time)
{
	if (!(options & SEQUENCE) || !c->wanted)
		return;
	c->m.time = time;
	tell(t, &c->m, UNWIND);
}

#endif
