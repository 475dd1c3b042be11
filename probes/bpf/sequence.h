/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sequence of a thread's events, or a goroutine's (function_call): entries
 * and returns, calls that were abandoned, and gaps, in the order in which they
 * happened.
 *
 * The order is that of the ring buffer, in which records lie as they were
 * reserved; a goroutine does so on one thread after the other. Whatever follows
 * calls (calls.h, exit.h) can have their sequence told: entered() at each entry,
 * tell(LEAVE) at each return of a call that was followed, unwound() for each
 * call that is found to be abandoned, the innermost first. Its part is to keep a
 * word for each sequence: gap, whether events are missing since the last one
 * that was sent.
 */
#ifndef ENDOSCOPE_SEQUENCE_H
#define ENDOSCOPE_SEQUENCE_H

#include "anew.h"
#include "caller.h"
#include "copy.h"
#include "event.h"
#include "standby.h"

/* Names of events as they lie in memory: conditions compare them as text. */
#define NAME(a, b, c, d, e, f) \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40)
#define ENTER NAME('E', 'N', 'T', 'E', 'R', 0)
#define LEAVE NAME('L', 'E', 'A', 'V', 'E', 0)
#define UNWIND NAME('U', 'N', 'W', 'I', 'N', 'D')
#define GAP NAME('G', 'A', 'P', 0, 0, 0)
#define OVER NAME('O', 'V', 'E', 'R', 0, 0) /* hush.h */

/* While only some functions are probed, the rest would be missing. */
static __always_inline bool is_closed(void)
{
	return !armed || ((options & SEQUENCE) && !(__u32)open);
}

/* is_closed_to is the same of the entry of a function. */
static __always_inline bool is_closed_to(__u64 cookie)
{
	return (options & SEQUENCE) && ID(cookie) >= (__u32)open;
}

/*
 * What the gap of a sequence is in which nothing is missing: it differs from it once
 * functions were added, of which calls are missing until then. Never odd.
 */
static __always_inline __u32 no_gap(void)
{
	return (__u32)(open >> 32) << 1;
}

/*
 * send_event sends an event: with the stack, if that is wanted and ctx is where the
 * call begins or ends; slot is as caller_of has it. There is one copy of it, for it
 * is large.
 */
static __noinline enum sent send_event(struct pt_regs *ctx, __u64 slot, struct moment *m)
{
	if (!(options & SEND_STACK))
		return send(m);
	if (!within_rate(m->time))
		return LIMITED;
	return ctx ? send_copied(ctx, m, slot) : send_uncopied(m);
}

/* mark sends a gap in front of m, if gaps are wanted. No test of a function's names holds of it. */
static __always_inline enum sent mark(struct moment *m)
{
	__u64 cookie = m->cookie;
	enum sent s = SENT;

	m->cookie = 0;
	m->event = GAP;
	if (test_entry(m) && test_return(m))
		s = send_event(NULL, 0, m);
	m->cookie = cookie;
	return s;
}

/*
 * tell sends an event of a wanted call, if the event is wanted. None is sent
 * across a gap that could not be marked. ctx is NULL where the thread is elsewhere.
 */
static __noinline int tell(struct pt_regs *ctx, __u64 slot, __u32 *gap, struct moment *m, __u64 event)
{
	__u32 none = no_gap();
	enum sent s = *gap != none ? mark(m) : SENT;

	if (s == SENT)
		*gap = none;
	m->event = event;
	if (!test_return(m))
		return 0;
	if (s == SENT)
		s = send_event(ctx, slot, m);
	if (s != SENT) {
		count_unsent(s);
		*gap = 1;
	}
	return 0;
}

/*
 * entered tells the entry of a wanted call. One whose return will not be seen
 * (not followed) is left out whole, so that every ENTER has its end. Where it is
 * not known whose sequence it is of, or there is no memory for that (gap is
 * NULL), there is nowhere to note it: the gap is marked at once, and counted as
 * lost if that fails.
 */
static __always_inline void entered(struct pt_regs *ctx, __u64 slot, __u32 *gap, struct moment *m, bool followed)
{
	if (!gap)
		count_unsent(mark(m));
	else if (followed)
		tell(ctx, slot, gap, m, ENTER);
	else
		*gap = 1;
}

/* unwound tells that a wanted call will not return, as an event at time shows. */
static __always_inline void unwound(__u32 *gap, struct moment *m, __u64 time)
{
	m->time = time;
	tell(NULL, 0, gap, m, UNWIND);
}

#endif
