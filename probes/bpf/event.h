/* SPDX-License-Identifier: GPL-2.0 */
/* The events that are sent to user space. */
#ifndef ENDOSCOPE_EVENT_H
#define ENDOSCOPE_EVENT_H

#include "context.h"
#include "counters.h"
#include "memory.h"
#include "moment.h"
#include "rate.h"
#include "values.h"

/*
 * Event layouts. The verifier must know the size of a ring buffer record, so there are
 * seven. All events of a query have the same layout, chosen by AT_RETURN, SEND_ARGS,
 * SEND_NAMES, SEND_RECEIVER, SEND_GOROUTINE and SEND_COST. Words for other options may
 * follow: fill_more.
 */
struct event {
	__u64 time; /* CLOCK_BOOTTIME */
	__u32 function; /* id and ABSENT; of a sequence, id and the initial of the event's name */
	__u32 pid, tid;
	__u16 query;
	__u16 depth;
};
struct event_return {
	struct event e;
	__u64 start; /* 0 in an entry event of one of the larger layouts */
	__u64 retval; /* of a sequence the goroutine */
};
struct event_names {
	struct event_return r;
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
};
struct event_args {
	struct event_return r;
	__u64 args[ARGS];
};
struct event_full {
	struct event_return r;
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
	__u64 args[ARGS];
};
struct event_receiver {
	struct event_full f;
	__u64 ip;
	__u64 table[RECEIVERS];
};

struct event_cost {
	struct event_receiver o;
	__u64 cost[COSTS];
};

/* Shared by all queries: the loader inserts one map. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24); /* set by the loader */
} events SEC(".maps");

/*
 * The reader polls the ring every few milliseconds. It is woken only when more than this
 * is waiting, as a wake-up costs as much as the probe.
 */
const volatile __u64 wake_bytes = 1 << 22;

/* A reader that leaves as much more waiting is awake, and behind. More than a record has. */
#define BEHIND (1 << 17)

/* wakeup returns whether an event that is sent now wakes the reader, as flags of the ring. */
static __always_inline __u64 wakeup(void)
{
	__u64 more = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) - wake_bytes;

	return more - 1 < BEHIND ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP; /* one branch, if more is less than 0 as well */
}

/* Bits above the function id: which of the args, and whether the retval, are NULL. */
#define ABSENT(m) ((__u32)((m)->absent & 0x7f) << 24 | (((m)->cookie & NO_RETVAL) ? 1 << 30 : 0))

static __always_inline void fill(struct event *e, const struct moment *m)
{
	e->time = m->time;
	if (options & SEQUENCE)
		e->function = ID(m->cookie) | (__u32)m->event << 24;
	else
		e->function = ID(m->cookie) | ABSENT(m);
	e->pid = m->pid;
	e->tid = m->tid;
	e->query = query;
	e->depth = m->depth;
}

static __always_inline void fill_return(struct event_return *r, const struct moment *m)
{
	fill(&r->e, m);
	r->start = m->start;
	r->retval = (options & SEQUENCE) ? m->goroutine : m->retval;
}

static __always_inline void fill_cost(struct event_cost *c, const struct moment *m)
{
	fill_return(&c->o.f.r, m);
	__builtin_memcpy(c->o.f.process, m->process, 2 * TASK_COMM_LEN);
	__builtin_memcpy(c->o.f.args, m->args, sizeof(c->o.f.args));
	c->o.ip = m->ip;
	__builtin_memcpy(c->o.table, m->table, sizeof(c->o.table));
	__builtin_memcpy(c->cost, m->cost, sizeof(c->cost));
}

static __always_inline void submit(void *e)
{
	bpf_ringbuf_submit(e, wakeup());
}

/* The number of words after an event: a constant for the verifier. */
#define SEND_MORE (SEND_SELF | SEND_CALLER | ALLOCATES | FREES | SEND_FRAME)
#define MORE_WORDS                                                          \
	(!(options & SEND_MORE) && !context_words ? 0 :                     \
	 ((options & SEND_SELF) ? 1 : 0) + ((options & SEND_CALLER) ? 2 : 0) + (OF_MEMORY ? 2 : 0) + ((options & SEND_FRAME) ? 1 : 0) + \
	 (context_words > 2 ? 1 + KEY_WORDS : context_words ? 2 : 0))

/* fill_more writes the words after an event, in the order in which package uprobe decodes them. */
static __always_inline void fill_more(__u64 *more, const struct moment *m)
{
	if (!(options & SEND_MORE) && !context_words)
		return;
	if (options & SEND_SELF)
		*more++ = m->self;
	if (options & SEND_CALLER) {
		*more++ = m->caller;
		*more++ = bpf_get_current_task_btf()->self_exec_id;
	}
	if (OF_MEMORY) {
		*more++ = m->address;
		*more++ = m->size;
	}
	if (options & SEND_FRAME)
		*more++ = m->address;
	if (context_words)
		fill_context(more, m);
}

#define RESERVE(type)                                                       \
	type *r = bpf_ringbuf_reserve(&events, sizeof(type) + MORE_WORDS * sizeof(__u64), 0); \
	if (!r)                                                             \
		return FULL;                                                \
	fill_more((__u64 *)(r + 1), m)

enum sent { SENT, LIMITED, FULL };

static __always_inline enum sent output(void *e, __u64 size)
{
	return bpf_ringbuf_output(&events, e, size, wakeup()) ? FULL : SENT;
}

/*
 * send_texts sends the event followed by the texts of the call. It uses two layouts: the
 * largest, and event_args.
 */
static __always_inline enum sent send_texts(const struct moment *m)
{
	char *own = bpf_task_storage_get(&scratch, bpf_get_current_task_btf(), NULL, 0);

	if (!own)
		return FULL;
	char *t = own + TEXTS_AT;
	__u64 size = size_of((struct texts *)t), more = MORE_WORDS * sizeof(__u64);
	if (options & (SEND_NAMES | SEND_RECEIVER | SEND_COST)) {
		struct event_cost *r = (struct event_cost *)(t - more - sizeof(*r));
		fill_more((__u64 *)(r + 1), m);
		fill_return(&r->o.f.r, m);
		__builtin_memcpy(r->o.f.process, m->process, 2 * TASK_COMM_LEN);
		__builtin_memcpy(r->o.f.args, m->args, sizeof(r->o.f.args));
		r->o.ip = m->ip;
		__builtin_memcpy(r->o.table, m->table, sizeof(r->o.table));
		__builtin_memcpy(r->cost, m->cost, sizeof(r->cost));
		return output(r, sizeof(*r) + more + size);
	}
	struct event_args *r = (struct event_args *)(t - more - sizeof(*r));
	fill_more((__u64 *)(r + 1), m);
	fill_return(&r->r, m);
	__builtin_memcpy(r->args, m->args, sizeof(r->args));
	return output(r, sizeof(*r) + more + size);
}
_Static_assert(sizeof(struct event_cost) <= TEXTS_AT, "an event fits in front of texts");

/* send sends the event, unless the query exceeds its rate or the ring is full. */
static __always_inline enum sent send(const struct moment *m)
{
	__u32 layout = options & (SEND_ARGS | SEND_NAMES);

	if (!within_rate(m->time))
		return LIMITED;
	if (options & SEND_TEXTS)
		return send_texts(m);
	if (options & SEND_COST) {
		RESERVE(struct event_cost);
		fill_cost(r, m);
		submit(r);
	} else if (options & SEND_RECEIVER) {
		RESERVE(struct event_receiver);
		fill_return(&r->f.r, m);
		__builtin_memcpy(r->f.process, m->process, 2 * TASK_COMM_LEN);
		__builtin_memcpy(r->f.args, m->args, sizeof(r->f.args));
		r->ip = m->ip;
		__builtin_memcpy(r->table, m->table, sizeof(r->table));
		submit(r);
	} else if (layout == (SEND_ARGS | SEND_NAMES)) {
		RESERVE(struct event_full);
		fill_return(&r->r, m);
		__builtin_memcpy(r->process, m->process, 2 * TASK_COMM_LEN);
		__builtin_memcpy(r->args, m->args, sizeof(r->args));
		submit(r);
	} else if (layout == SEND_ARGS) {
		RESERVE(struct event_args);
		fill_return(&r->r, m);
		__builtin_memcpy(r->args, m->args, sizeof(r->args));
		submit(r);
	} else if (layout == SEND_NAMES) {
		RESERVE(struct event_names);
		fill_return(&r->r, m);
		__builtin_memcpy(r->process, m->process, 2 * TASK_COMM_LEN);
		submit(r);
	} else if (options & (AT_RETURN | SEND_GOROUTINE)) {
		RESERVE(struct event_return);
		fill_return(r, m);
		submit(r);
	} else {
		RESERVE(struct event);
		fill(r, m);
		submit(r);
	}
	return SENT;
}

static __always_inline void count_unsent(enum sent s)
{
	if (s == LIMITED)
		COUNT_CALL(limited);
	else if (s == FULL)
		COUNT_CALL(lost);
}

#endif
