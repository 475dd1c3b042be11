//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Writes to variables: a hardware watchpoint traps after the instruction that has
 * written, and this program reads what is there now. It runs in the context of the
 * thread that wrote, whose page is there: nothing is waited for.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define TICK 10000000 /* ns of one of /proc/PID/stat's (USER_HZ) */

struct write {
	__u64 time;  /* boot clock, ns */
	__u64 ip;    /* of the next instruction */
	__u64 addr;  /* of the variable */
	__u64 value; /* its bytes, the first in the lowest; those behind it are 0 */
	__u32 tgid, tid;
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

/* How a variable is read. */
struct reading {
	__u32 size; /* bytes that are watched */
	__u32 kind;
};

enum {
	NUMBER,
	CSTRING, /* a pointer to a text that a zero byte ends */
	POINTER, /* the first of a pointer and a length */
	LENGTH,  /* the second */
};

const struct write *const type_write __attribute__((unused)) = 0;

/* A variable of a process. */
struct variable {
	__u64 addr;
	__u32 tgid;
	__u32 pad;
};

const struct variable *const type_variable __attribute__((unused)) = 0;

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

/* How each variable is read. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, struct variable);
	__type(value, struct reading);
} variables SEC(".maps");

/*
 * When threads began, in clock ticks, by tid, that have watchpoints of their own. Those that they
 * make later inherit theirs; one that was made while these were set may have both.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, __u64);
} own SEC(".maps");

volatile __u64 lost; /* writes that found no room */

static __always_inline void fill(struct write *w, struct perf_event_context *ctx, const struct variable *v, __u32 tid, __u32 n)
{
	w->time = bpf_ktime_get_boot_ns();
	w->ip = ctx->regs.ip;
	w->addr = v->addr;
	w->value = 0;
	w->tgid = v->tgid;
	w->tid = tid;
	bpf_get_current_comm(w->comm, sizeof(w->comm));
	if (n > sizeof(w->value))
		n = sizeof(w->value);
	bpf_probe_read_user(&w->value, n, (void *)v->addr);
}

/* read_text reads a text as it is at the write, of which the other word lies beside. */
static __always_inline void read_text(struct write_text *w, __u32 kind)
{
	__u64 at = w->write.value, length = 0;

	w->length = ~0ULL;
	if (kind == CSTRING) {
		long n = bpf_probe_read_user_str(w->text, sizeof(w->text), (void *)at);
		if (n > 0)
			w->length = n - 1;
		return;
	}
	if (kind == POINTER) {
		if (bpf_probe_read_user(&length, 8, (void *)w->write.addr + 8))
			return;
	} else {
		length = at;
		if (bpf_probe_read_user(&at, 8, (void *)w->write.addr - 8))
			return;
	}
	__u64 n = length;
	asm volatile("" : "+r"(n)); /* the verifier follows the bound of this register */
	if (n > MAX_TEXT)
		n = MAX_TEXT;
	if (!n || !bpf_probe_read_user(w->text, n, (void *)at))
		w->length = length;
}

SEC("perf_event")
int written(struct perf_event_context *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();
	__u32 tid = id;
	struct variable v = {.addr = ctx->addr, .tgid = id >> 32};
	struct reading *how = bpf_map_lookup_elem(&variables, &v);
	if (!how)
		return 0; /* a child of a fork in between, or another program by now */
	/* The cookie of a watchpoint is the thread that it was set for. */
	if (bpf_get_attach_cookie(ctx) != tid) {
		__u64 *start = bpf_map_lookup_elem(&own, &tid);
		struct task_struct *task = bpf_get_current_task_btf();
		if (start && *start == task->start_boottime / TICK)
			return 0; /* inherited, and it has one of its own */
	}
	if (how->kind != NUMBER) {
		struct write_text *t = bpf_ringbuf_reserve(&writes, sizeof(*t), 0);
		if (!t) {
			__sync_fetch_and_add(&lost, 1);
			return 0;
		}
		fill(&t->write, ctx, &v, tid, how->size);
		read_text(t, how->kind);
		bpf_ringbuf_submit(t, BPF_RB_NO_WAKEUP);
		return 0;
	}
	struct write *w = bpf_ringbuf_reserve(&writes, sizeof(*w), 0);
	if (!w) {
		__sync_fetch_and_add(&lost, 1);
		return 0;
	}
	fill(w, ctx, &v, tid, how->size);
	bpf_ringbuf_submit(w, BPF_RB_NO_WAKEUP);
	return 0;
}
