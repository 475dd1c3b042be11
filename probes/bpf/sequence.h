/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The sequence of events of a thread or goroutine (function_call): entries, returns,
 * abandoned calls and gaps, in the order in which they happened.
 *
 * The order is that of reservations in the ring buffer. Code that tracks calls (calls.h,
 * exit.h) reports them by entered() at each entry, tell(LEAVE) at each return of a
 * tracked call, and unwound() for each abandoned call, innermost first. It keeps one word
 * for each sequence, gap: whether events are missing since the last one that was sent.
 */
#ifndef ENDOSCOPE_SEQUENCE_H
#define ENDOSCOPE_SEQUENCE_H

#include "reattach.h"
#include "caller.h"
#include "copy.h"
#include "event.h"
#include "names.h"
#include "opening.h"
#include "recall.h"
#include "standby.h"

/* is_closed reports whether only some probes are attached: events of the others would be missing. */
static __always_inline bool is_closed(void)
{
	return !armed || ((options & SEQUENCE) && !(__u32)open);
}

/* is_closed_to reports the same for the entry of one function. */
static __always_inline bool is_closed_to(__u64 cookie)
{
	return (options & SEQUENCE) && ID(cookie) >= (__u32)open;
}

/*
 * Within an overhead: the time of the last gap, boot clock, at which probes may have been detached.
 * A call that began before and is found to have been left may have returned meanwhile.
 */
volatile __u64 since;

/*
 * is_untold reports whether the end of a call is not told since the gap is between it and the
 * call. What is recorded has every return that was seen.
 */
static __always_inline bool is_untold(const struct moment *m, __u64 event)
{
	return budgeted && m->start < since && (event == UNWIND || (event == LEAVE && !records));
}

/*
 * no_gap returns the value of gap for a sequence without missing events. It changes when
 * functions are added, as earlier calls of those are missing. Never odd.
 */
static __always_inline __u32 no_gap(void)
{
	return (__u32)(open >> 32) << 1;
}

/*
 * send_event sends an event, with the stack if the query reads it and ctx is at the entry
 * or exit of the call (else NULL). slot is as for caller_of. Not inlined, as it is large.
 */
static __noinline enum sent send_event(struct pt_regs *ctx, __u64 slot, struct moment *m)
{
	if (records)
		return record(m);
	if (context) {
		change_context(m);
		return SENT;
	}
	if (!(options & SEND_STACK))
		return send(m);
	if (!within_rate(m->time))
		return LIMITED;
	return ctx ? send_copied(ctx, m, slot) : send_uncopied(m);
}

/* mark sends a GAP before m, if the query selects gaps. A GAP satisfies no test of a function's names. */
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
 * tell sends an event of a selected call, if the event is selected. No event is sent
 * after a gap whose GAP could not be sent. ctx is NULL if the thread is not at the call.
 */
static __noinline int tell(struct pt_regs *ctx, __u64 slot, __u32 *gap, struct moment *m, __u64 event)
{
	__u32 none = no_gap();
	if (is_untold(m, event))
		return 0;
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
 * entered reports the entry of a selected call. A call whose return will not be seen (not
 * followed) is omitted, so that every ENTER has its end. If the sequence is not known or
 * has no memory (gap is NULL), the GAP is sent at once, and counted as lost if that fails.
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

/* unwound reports that a selected call will not return, as an event at time shows. */
static __always_inline void unwound(__u32 *gap, struct moment *m, __u64 time)
{
	m->time = time;
	tell(NULL, 0, gap, m, UNWIND);
}

#endif
