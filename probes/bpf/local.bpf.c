//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Variables of functions, read where lines of source begin. Package codegen generates the
 * body of read_variables, which knows the variables and their locations at each of these
 * instructions; the cookie has the instruction's number.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define NUMBERS 8
#define TEXTS 4
#define MAX_TEXT 256

/* What is read at an instruction. */
struct local {
	__u64 cookie; /* the instruction's number, with that of its file above it */
	__u64 time;   /* boot clock, ns */
	__u64 absent; /* bits of the numbers, the three after them and the texts that are NULL */
	__u64 frame;  /* canonical frame address: unique among the calls under way */
	/* In Go: the goroutine, and the end of its stack. */
	__u64 goroutine, stack;
	__u64 numbers[NUMBERS];
	__u32 tgid, tid;
	char comm[16];
	__u32 failed; /* what read_variables returned */
	__u32 texts;  /* whether texts follow */
};

const struct local *const type_local __attribute__((unused)) = 0;

struct local_texts {
	__u16 size;          /* bytes that follow */
	__u16 length[TEXTS]; /* of each, or 0xffff; the texts follow, concatenated */
	char bytes[TEXTS * MAX_TEXT + 6]; /* up to two more bytes are read */
};

const struct local_texts *const type_local_texts __attribute__((unused)) = 0;

struct local_with_texts {
	struct local local;
	struct local_texts texts;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 22);
} locals SEC(".maps");

const volatile bool with_texts;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} missed SEC(".maps"); /* lines that found the ring full */

static __noinline int read_variables(struct local *l, const struct pt_regs *ctx, struct local_texts *t)
{
	int failed = 0;

	asm volatile("" : "+r"(failed) : "r"(l), "r"(ctx), "r"(t) : "memory");
	return failed;
}

static __always_inline void count_missed(void)
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&missed, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
}

static __always_inline void fill(struct local *l, struct pt_regs *ctx)
{
	__u64 id = bpf_get_current_pid_tgid();

	__builtin_memset(l, 0, sizeof(*l));
	l->cookie = bpf_get_attach_cookie(ctx);
	l->time = bpf_ktime_get_boot_ns();
	l->tgid = id >> 32;
	l->tid = id;
	bpf_get_current_comm(l->comm, sizeof(l->comm));
}

SEC("uprobe.multi")
int line(struct pt_regs *ctx)
{
	if (with_texts) {
		struct local_with_texts *l = bpf_ringbuf_reserve(&locals, sizeof(*l), 0);
		if (!l) {
			count_missed();
			return 0;
		}
		fill(&l->local, ctx);
		l->local.texts = 1;
		__builtin_memset(&l->texts, 0xff, 2 + 2 * TEXTS);
		l->texts.size = 0;
		l->local.failed = read_variables(&l->local, ctx, &l->texts);
		bpf_ringbuf_submit(l, BPF_RB_NO_WAKEUP);
		return 0;
	}
	struct local *l = bpf_ringbuf_reserve(&locals, sizeof(*l), 0);
	if (!l) {
		count_missed();
		return 0;
	}
	fill(l, ctx);
	l->failed = read_variables(l, ctx, NULL);
	bpf_ringbuf_submit(l, BPF_RB_NO_WAKEUP);
	return 0;
}
