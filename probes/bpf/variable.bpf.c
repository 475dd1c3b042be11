//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Writes to variables. A hardware watchpoint traps after the instruction that wrote, and
 * these programs read the new value. They run in the context of the thread that wrote, so
 * the page is present.
 *
 * A variable may be reached through pointers, which have watchpoints as well. A write to
 * such a pointer counts as a write to the variable: its value is the one that the pointer
 * now leads to. User space then moves the watchpoints that depend on the pointer.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define TICK 10000000 /* ns in a clock tick of /proc/PID/stat (USER_HZ) */

/* The state of a variable at a write. */
enum {
	PRESENT,
	ABSENT,     /* a pointer to it is null, or a slice is too short */
	UNREADABLE, /* a pointer to it leads to unreadable memory */
};

struct write {
	__u64 time;  /* boot clock, ns */
	__u64 ip;    /* of the next instruction */
	__u64 value; /* its bytes, little endian, zero-extended */
	__u32 tgid, tid;
	__u32 variable; /* of the process */
	__u8 state;
	__u8 moved; /* the write was to a pointer that leads to it */
	__u16 pad;
	char comm[16];
};

#define MAX_TEXT 256

/* A write to a text. */
struct write_text {
	struct write write;
	__u64 length; /* of the text; ~0: it could not be read */
	char text[MAX_TEXT];
};

const struct write_text *const type_write_text __attribute__((unused)) = 0;
const struct write *const type_write __attribute__((unused)) = 0;

enum {
	NUMBER,
	CSTRING, /* a pointer to a text that a zero byte ends */
	POINTER, /* the first of a pointer and a length */
	LENGTH,  /* the second */
};

#define WATCHPOINTS 4 /* of a processor (x86: DR0 to DR3) */
#define MAX_POINTERS (WATCHPOINTS - 1)

/* How a pointer on the path to a variable is followed. */
struct step {
	__u64 offset;
	__u64 length; /* least length of the slice whose pointer it is (the length is the next word); 0: not a slice */
};

/* How a variable is reached and read. */
struct variable {
	__u64 addr; /* of itself, or of the first pointer */
	__u32 pointers;
	__u32 size; /* bytes that are watched */
	__u32 kind;
	__u32 pad;
	struct step steps[MAX_POINTERS];
};

struct watchpoint {
	__u64 addr;      /* 0: not set */
	__u64 variables; /* bit set of the variables it watches */
};

/* What is watched in a process. */
struct process {
	struct watchpoint watchpoints[WATCHPOINTS];
	struct variable variables[WATCHPOINTS];
};

const struct process *const type_process __attribute__((unused)) = 0;

/* The context of a program of a perf event (include/uapi/linux/bpf_perf_event.h). */
struct perf_event_context {
	struct pt_regs regs;
	__u64 sample_period;
	__u64 addr;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} writes SEC(".maps");

/* What is watched, by tgid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, struct process);
} processes SEC(".maps");

/*
 * Start times, in clock ticks, of the threads that have watchpoints of their own, by tid.
 * Threads that they create later inherit theirs; one that was created while they were set
 * may have both.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, __u64);
} own SEC(".maps");

volatile __u64 lost; /* writes that found the ring full */

/* Where a variable was found. */
struct found {
	__u64 addr;
	__u32 state;
	__u32 moved;
};

/*
 * reach follows the pointers to a variable. It returns 0 if the written address is not on
 * the path: the pointers have changed meanwhile.
 */
static __always_inline int reach(const struct variable *v, __u64 written, struct found *f)
{
	__u64 at = v->addr;

	f->moved = 0;
	for (int i = 0; i < MAX_POINTERS; i++) {
		__u64 next, length = 0;
		if (i >= v->pointers)
			break;
		f->moved |= at == written;
		f->state = UNREADABLE;
		if (bpf_probe_read_user(&next, 8, (void *)at))
			return f->moved;
		/* A write to the element itself counts even if the length is not updated yet. */
		if (v->steps[i].length && f->moved && bpf_probe_read_user(&length, 8, (void *)at + 8))
			return f->moved;
		f->state = ABSENT;
		if (!next || (f->moved && length < v->steps[i].length))
			return f->moved;
		at = next + v->steps[i].offset;
	}
	f->state = PRESENT;
	f->addr = at;
	return f->moved || at == written;
}

static __always_inline void fill(struct write *w, struct perf_event_context *ctx, const struct variable *v, __u32 number, const struct found *f)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 n = v->size;

	w->time = bpf_ktime_get_boot_ns();
	w->ip = ctx->regs.ip;
	w->value = 0;
	w->tgid = id >> 32;
	w->tid = id;
	w->variable = number;
	w->state = f->state;
	w->moved = f->moved;
	w->pad = 0;
	bpf_get_current_comm(w->comm, sizeof(w->comm));
	if (n > sizeof(w->value))
		n = sizeof(w->value);
	if (f->state == PRESENT && bpf_probe_read_user(&w->value, n, (void *)f->addr))
		w->state = UNREADABLE;
}

/* read_text reads the text at a write to its pointer or length; the other word is adjacent. */
static __always_inline void read_text(struct write_text *w, __u32 kind, __u64 addr)
{
	__u64 at = w->write.value, length = 0;

	w->length = ~0ULL;
	if (w->write.state != PRESENT)
		return;
	if (kind == CSTRING) {
		long n = bpf_probe_read_user_str(w->text, sizeof(w->text), (void *)at);
		if (n > 0)
			w->length = n - 1;
		return;
	}
	if (kind == POINTER) {
		if (bpf_probe_read_user(&length, 8, (void *)addr + 8))
			return;
	} else {
		length = at;
		if (bpf_probe_read_user(&at, 8, (void *)addr - 8))
			return;
	}
	__u64 n = length;
	AT_MOST(n, MAX_TEXT);
	if (!n || !bpf_probe_read_user(w->text, n, (void *)at))
		w->length = length;
}

/* tell sends a record of a variable at a write. */
static __noinline void tell(struct perf_event_context *ctx, const struct variable *v, __u32 number)
{
	struct found f = {};

	if (!reach(v, ctx->addr, &f))
		return;
	/* User space must move watchpoints at once. */
	__u64 flags = f.moved ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
	if (v->kind != NUMBER) {
		struct write_text *t = bpf_ringbuf_reserve(&writes, sizeof(*t), 0);
		if (!t) {
			__sync_fetch_and_add(&lost, 1);
			return;
		}
		fill(&t->write, ctx, v, number, &f);
		read_text(t, v->kind, f.addr);
		bpf_ringbuf_submit(t, flags);
		return;
	}
	struct write *w = bpf_ringbuf_reserve(&writes, sizeof(*w), 0);
	if (!w) {
		__sync_fetch_and_add(&lost, 1);
		return;
	}
	fill(w, ctx, v, number, &f);
	bpf_ringbuf_submit(w, flags);
}

static __always_inline int written(struct perf_event_context *ctx, __u32 number)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id, tgid = id >> 32;
	struct process *p = bpf_map_lookup_elem(&processes, &tgid);
	if (!p || p->watchpoints[number].addr != ctx->addr)
		return 0; /* forked or executed meanwhile, or the watchpoint is about to be moved */
	/* The cookie of a watchpoint is the thread that it was set for. */
	if (bpf_get_attach_cookie(ctx) != tid) {
		__u64 *start = bpf_map_lookup_elem(&own, &tid);
		struct task_struct *task = bpf_get_current_task_btf();
		if (start && *start == task->start_boottime / TICK)
			return 0; /* inherited, and it has one of its own */
	}
	for (__u32 i = 0; i < WATCHPOINTS; i++)
		if (p->watchpoints[number].variables >> i & 1)
			tell(ctx, &p->variables[i], i);
	return 0;
}

/*
 * One program for each watchpoint of a thread, to identify it: a thread that inherits
 * watchpoints has their programs, but not their cookies (perf_event_alloc in
 * kernel/events/core.c).
 */
SEC("perf_event")
int written0(struct perf_event_context *ctx) { return written(ctx, 0); }
SEC("perf_event")
int written1(struct perf_event_context *ctx) { return written(ctx, 1); }
SEC("perf_event")
int written2(struct perf_event_context *ctx) { return written(ctx, 2); }
SEC("perf_event")
int written3(struct perf_event_context *ctx) { return written(ctx, 3); }
