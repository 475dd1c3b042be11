/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls that are recorded in memory until a trigger recalls them (RECALL). Each thread,
 * goroutine or coroutine writes its events to a ring of its own, in which the newest
 * overwrite the oldest. The programs of the trigger's condition, another acquisition that
 * shares these maps, exchange the ring for a free one at a tuple that satisfies it: fire.
 * User space reads the ring and frees it.
 *
 * A ring has one writer. A sequence finds its ring by its holder and checks that it still
 * has it: when no ring is free, a new sequence takes the least recently used one. The one
 * that takes it changes the claim and then reads the time of the last event again; the
 * one that has it writes the time and then reads the claim. At least one of the two
 * notices the other. The number of an event says which lap of the ring it belongs to, so
 * that a record that is not the expected one is noticed when it is read.
 */
#ifndef ENDOSCOPE_RECALL_H
#define ENDOSCOPE_RECALL_H

#include "event.h"

/* An event in a ring. */
struct recorded {
	__u64 time;
	__u32 function; /* as in struct event */
	__u32 pid, tid;
	__u16 lap;      /* number / RING_EVENTS */
	__u16 depth;
	__u64 goroutine;
};

#define RING_EVENTS 4096

/* Who writes to a ring, in a cache line. */
struct ring {
	__u64 claim;  /* number of its claim; 0: free. With READING, user space reads it */
	__u64 last;   /* time of the last event; NEVER: there is none, or it is free */
	__u64 next;   /* number of the next event */
	__u64 first;  /* number of the claim's first event */
	__u64 since;  /* when the claim began */
	__u64 before; /* the claim that the sequence had before, in a ring that was recalled; 0: none */
	__u64 unused[2];
};
#define READING (1ULL << 63)
#define NEVER (~0ULL)

/* The first entry of the map: counters. */
struct recall_pool {
	__u64 claims;     /* the last one */
	__u64 used;       /* rings that are not free */
	__u64 given_away; /* rings taken from a sequence that had not ended */
	__u64 firings;
	__u64 missed;     /* firings that found no free ring */
	__u64 untold;     /* firings that found no room among those not read yet */
	__u64 unused[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct ring);
} rings SEC(".maps");
_Static_assert(sizeof(struct recall_pool) == sizeof(struct ring), "the pool is an entry of the map");

/* The events of each ring. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct recorded[RING_EVENTS]);
} recordings SEC(".maps");

/* How many rings there are, and how many of them only firings take. */
const volatile __u32 ring_count = 0, ring_reserve = 0;

/* The ring of a sequence. */
struct holder {
	__u64 claim; /* 0: none */
	__u64 ring;
};

/* Of a thread, or the coroutine that it runs; */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct holder);
} holders SEC(".maps");

/* and of a goroutine. */
struct routine {
	__u64 goroutine, pid;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct routine);
	__type(value, struct holder);
} routines SEC(".maps");

/* A tuple that satisfied the trigger's condition. */
struct firing {
	__u64 time;   /* of the tuple */
	__u64 number; /* from 1 */
	__u64 claim;  /* of the ring that was recalled */
	__u32 ring;   /* NO_RING, or NO_SPARE */
	__u32 pid, tid;
	__u32 unused;
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
};
enum { NO_RING = ~0U, NO_SPARE = ~1U };

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* set by the loader */
} firings SEC(".maps");

/* holder_of returns the holder of the event's sequence; NULL: there is none, or no memory. */
static __always_inline struct holder *holder_of(const struct moment *m, bool create)
{
	struct routine key = { .goroutine = m->goroutine, .pid = m->pid };

	if (!(m->cookie & GO_REGISTERS) || !m->goroutine)
		return bpf_task_storage_get(&holders, bpf_get_current_task_btf(), NULL, create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
	struct holder *h = bpf_map_lookup_elem(&routines, &key);
	if (h || !create)
		return h;
	struct holder none = {};
	bpf_map_update_elem(&routines, &key, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&routines, &key);
}

static __always_inline struct recall_pool *pool(void)
{
	__u32 zero = 0;

	return (struct recall_pool *)bpf_map_lookup_elem(&rings, &zero);
}

/* ring_of returns the ring of a holder, for an event at a time; NULL: it has none any more. */
static __always_inline struct ring *ring_of(const struct holder *h, __u64 time)
{
	__u32 index = h->ring;

	if (!h->claim)
		return NULL;
	struct ring *r = bpf_map_lookup_elem(&rings, &index);
	if (!r)
		return NULL;
	__sync_lock_test_and_set(&r->last, time); /* orders the store before the load */
	return ONCE(r->claim) == h->claim ? r : NULL;
}

struct hunt {
	__u64 claim; /* for which a ring is searched */
	__u64 was;   /* the claim of the ring found */
	__u64 last;
	__u32 start;
	__u32 found; /* 0: none */
};

static long hunt_free(__u32 i, void *ctx)
{
	struct hunt *h = ctx;
	__u32 index = 1 + (h->start + i) % ring_count;
	struct ring *r = bpf_map_lookup_elem(&rings, &index);

	if (!r)
		return 1;
	if (ONCE(r->claim) || __sync_val_compare_and_swap(&r->claim, 0, h->claim))
		return 0;
	h->found = index;
	return 1;
}

static long hunt_oldest(__u32 i, void *ctx)
{
	struct hunt *h = ctx;
	__u32 index = 1 + i;
	struct ring *r = bpf_map_lookup_elem(&rings, &index);

	if (!r)
		return 1;
	__u64 claim = ONCE(r->claim), last = ONCE(r->last);
	if (claim && !(claim & READING) && last < h->last) {
		h->was = claim;
		h->last = last;
		h->found = index;
	}
	return 0;
}

/* Attempts to take the least recently used ring. */
#define TAKE_TRIES 4

/*
 * take_ring claims a ring for a sequence, whose ring was recalled if before is not 0.
 * Returns its index; 0: there is none.
 */
static __noinline __u32 take_ring(__u64 before, __u64 time)
{
	struct recall_pool *p = pool();
	struct ring *r = NULL;

	if (!p)
		return 0;
	struct hunt h = { .claim = __sync_fetch_and_add(&p->claims, 1) + 1 };
	h.start = h.claim;
	if (before || ONCE(p->used) + ring_reserve < ring_count)
		bpf_loop(ring_count, hunt_free, &h, 0);
	if (h.found) {
		COUNT(p->used);
	} else if (before) {
		return 0;
	}
	for (int i = 0; i < TAKE_TRIES && !h.found; i++) {
		h.last = NEVER;
		bpf_loop(ring_count, hunt_oldest, &h, 0);
		__u32 index = h.found;
		r = bpf_map_lookup_elem(&rings, &index);
		if (!h.found || !r)
			return 0;
		if (__sync_val_compare_and_swap(&r->claim, h.was, h.claim) != h.was) {
			h.found = 0;
		} else if (ONCE(r->last) != h.last) { /* its sequence goes on */
			__sync_val_compare_and_swap(&r->claim, h.claim, h.was);
			h.found = 0;
		} else {
			COUNT(p->given_away);
		}
	}
	__u32 index = h.found;
	r = bpf_map_lookup_elem(&rings, &index);
	if (!index || !r)
		return 0;
	r->last = time;
	/* A number is left out: the sequence that had the ring may still write the next one. */
	r->first = r->next = r->next + 1;
	r->since = time;
	r->before = before;
	return index;
}

/* record writes the event to the ring of its sequence. It is inlined, as frames are nested to
 * the most that the verifier allows when a process ends. */
static __always_inline enum sent record(const struct moment *m)
{
	struct holder *h = holder_of(m, true);

	if (!h)
		return FULL;
	struct ring *r = ring_of(h, m->time);
	if (!r) {
		__u32 index = take_ring(0, m->time);
		r = bpf_map_lookup_elem(&rings, &index);
		if (!index || !r)
			return FULL;
		h->ring = index;
		h->claim = r->claim;
	}
	__u32 index = h->ring;
	struct recorded *events = bpf_map_lookup_elem(&recordings, &index);
	if (!events)
		return FULL;
	__u64 n = r->next;
	struct recorded *e = &events[n & (RING_EVENTS - 1)];
	e->time = m->time;
	e->function = ID(m->cookie) | (__u32)m->event << 24;
	e->pid = m->pid;
	e->tid = m->tid;
	e->lap = n / RING_EVENTS;
	e->depth = m->depth;
	e->goroutine = m->goroutine;
	r->next = n + 1;
	return SENT;
}

/* fire recalls the sequence of a tuple of the trigger, which was sent. */
static __noinline int fire(const struct moment *m)
{
	struct recall_pool *p = pool();
	__u32 found = NO_RING;
	__u64 claim = 0;

	if (!p)
		return 0;
	__u64 number = __sync_fetch_and_add(&p->firings, 1) + 1;
	struct firing *f = bpf_ringbuf_reserve(&firings, sizeof(*f), 0);
	if (!f) {
		COUNT(p->untold);
		return 0;
	}
	struct holder *h = holder_of(m, false);
	struct ring *r = h ? ring_of(h, m->time) : NULL;
	if (r) {
		claim = h->claim;
		found = h->ring;
		__u32 spare = take_ring(claim, m->time);
		struct ring *next = bpf_map_lookup_elem(&rings, &spare);
		if (spare && next) {
			h->ring = spare;
			h->claim = next->claim;
			__sync_fetch_and_or(&r->claim, READING);
		} else {
			found = NO_SPARE;
			COUNT(p->missed);
		}
	}
	f->time = m->time;
	f->number = number;
	f->claim = claim;
	f->ring = found;
	f->pid = m->pid;
	f->tid = m->tid;
	f->unused = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	bpf_probe_read_kernel_str(f->process, TASK_COMM_LEN, BPF_CORE_READ(task, group_leader) ? plain(task)->group_leader->comm : task->comm);
	bpf_get_current_comm(f->thread, TASK_COMM_LEN);
	bpf_ringbuf_submit(f, BPF_RB_FORCE_WAKEUP);
	return 0;
}

/* free_ring frees the ring of a thread that ends. */
static __always_inline void free_ring(void)
{
	if (!records)
		return;
	struct holder *h = bpf_task_storage_get(&holders, bpf_get_current_task_btf(), NULL, 0);
	struct recall_pool *p = pool();

	if (!h || !h->claim || !p)
		return;
	__u32 index = h->ring;
	struct ring *r = bpf_map_lookup_elem(&rings, &index);
	if (!r || ONCE(r->claim) != h->claim)
		return;
	r->last = NEVER;
	if (__sync_val_compare_and_swap(&r->claim, h->claim, 0) == h->claim)
		__sync_fetch_and_add(&p->used, -1);
	h->claim = 0;
}

#endif
