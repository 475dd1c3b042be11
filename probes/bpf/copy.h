/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events with a copy of the thread's stack:
 *
 *   event_cost | words of fill_more | copied | taken, each | texts | stack
 */
#ifndef ENDOSCOPE_COPY_H
#define ENDOSCOPE_COPY_H

#include "caller.h"
#include "event.h"

/* The most bytes of a stack that are copied; set by the loader. */
const volatile __u32 stack_bytes = 8192;

/*
 * The stack is copied in chunks that end at multiples of CHUNK: a read fails as a whole
 * if a page is missing.
 */
#define CHUNK 1024
#define MAX_CHUNKS 65

/* The size of what precedes the return addresses and the stack. */
#define COPY_HEAD (sizeof(struct event_cost) + MORE_WORDS * sizeof(__u64) + sizeof(struct copied))

/*
 * stack_room returns how much of the stack above sp is copied, at most up to its end. The
 * end of a goroutine's stack is in its g. Not inlined, as the frames of programs are large.
 */
static __noinline __u32 stack_room(const struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 end = task->pid == task->tgid ? plain(task)->mm->start_stack : task->thread.fsbase, sp = ctx->sp;
	struct g own;

	if ((cookie & GO_REGISTERS) && !bpf_probe_read_user(&own, sizeof(own), (void *)ctx->r14) && own.stack.lo <= sp && sp < own.stack.hi && is_g(&own))
		end = own.stack.hi;
	return sp < end && end - sp < stack_bytes ? end - sp : stack_bytes;
}

/* The state of copying a stack into a record, by bpf_loop: see SEARCH. */
struct copying {
	struct bpf_dynptr d;
	struct return_instance *ri;
	__u64 from;    /* the stack pointer */
	__u32 returns; /* the number of replaced return addresses */
	__u32 at;      /* the offset of the stack in the record */
	__u32 room, got, part;
	__u32 texts; /* the size of the texts */
};

static long count_taken(__u32 i, void *ctx)
{
	struct copying *c = ctx;
	struct return_instance *ri = c->ri;

	if (!ri)
		return 1;
	c->returns++;
	c->ri = BPF_CORE_READ(ri, next);
	return 0;
}

static long write_taken(__u32 i, void *ctx)
{
	struct copying *c = ctx;
	struct return_instance *ri = c->ri;

	if (!ri || i >= c->returns)
		return 1;
	struct taken one = {BPF_CORE_READ(ri, stack), BPF_CORE_READ(ri, orig_ret_vaddr)};
	bpf_dynptr_write(&c->d, COPY_HEAD + i * sizeof(one), &one, sizeof(one), 0);
	c->ri = BPF_CORE_READ(ri, next);
	return 0;
}

static long copy_chunk(__u32 i, void *ctx)
{
	struct copying *c = ctx;

	if (c->got >= c->room)
		return 1;
	void *to = bpf_dynptr_data(&c->d, c->at + c->got, CHUNK);
	if (!to || c->part > CHUNK || bpf_probe_read_user(to, c->part, (void *)(c->from + c->got)))
		return 1;
	c->got += c->part;
	c->part = CHUNK;
	return 0;
}

/* own_texts returns the texts of the thread's call. */
static __always_inline struct texts *own_texts(void)
{
	char *own = bpf_task_storage_get(&scratch, bpf_get_current_task_btf(), NULL, 0);

	return own ? (struct texts *)(own + TEXTS_AT) : NULL;
}

/* fill_copied fills what precedes the return addresses and the stack. */
static __always_inline void fill_copied(struct event_cost *e, const struct moment *m, const struct pt_regs *ctx, __u64 slot, const struct copying *k)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct copied *c = (void *)((__u64 *)(e + 1) + MORE_WORDS);

	fill_cost(e, m);
	fill_more((__u64 *)(e + 1), m);
	c->image = task->self_exec_id;
	c->trampoline = trampoline_of(task);
	c->regs[0] = ctx->ax;
	c->regs[1] = ctx->dx;
	c->regs[2] = ctx->cx;
	c->regs[3] = ctx->bx;
	c->regs[4] = ctx->si;
	c->regs[5] = ctx->di;
	c->regs[6] = ctx->bp;
	c->regs[7] = ctx->sp;
	c->regs[8] = ctx->r8;
	c->regs[9] = ctx->r9;
	c->regs[10] = ctx->r10;
	c->regs[11] = ctx->r11;
	c->regs[12] = ctx->r12;
	c->regs[13] = ctx->r13;
	c->regs[14] = ctx->r14;
	c->regs[15] = ctx->r15;
	c->regs[16] = ctx->ip;
	c->returned = slot ? 0 : m->ip;
	c->return_at = slot;
	c->returns = k->returns;
	c->texts = k->texts;
	c->bytes = k->got;
}

/*
 * send_copied sends an event with the stack. It is a global function (see calls.h). The
 * caller has checked the rate.
 */
__noinline int send_copied(struct pt_regs *ctx, struct moment *m, __u64 slot)
{
	struct copying k = {};

	if (!(options & SEND_STACK) || !m || !ctx) /* the first test lets the verifier skip the rest */
		return FULL;
	if (options & SEND_TEXTS) {
		struct texts *texts = own_texts();
		if (!texts)
			return FULL;
		k.texts = size_of(texts);
	}
	k.from = ctx->sp;
	k.room = stack_room(ctx, m->cookie);
	k.part = CHUNK - (k.from & (CHUNK - 1));
	k.ri = traps_of(bpf_get_current_task_btf());
	if (k.ri)
		bpf_loop(MAX_TAKEN, count_taken, &k, 0);
	k.at = COPY_HEAD + k.returns * sizeof(struct taken) + k.texts;
	if (bpf_ringbuf_reserve_dynptr(&events, k.at + k.room + CHUNK, 0, &k.d)) {
		bpf_ringbuf_discard_dynptr(&k.d, BPF_RB_NO_WAKEUP);
		return FULL;
	}
	if (k.returns) {
		k.ri = traps_of(bpf_get_current_task_btf());
		bpf_loop(MAX_TAKEN, write_taken, &k, 0);
	}
	if (options & SEND_TEXTS) {
		struct texts *texts = own_texts();
		if (texts)
			bpf_dynptr_write(&k.d, k.at - k.texts, texts, size_of(texts), 0);
	}
	bpf_loop(MAX_CHUNKS, copy_chunk, &k, 0);
	struct event_cost *e = bpf_dynptr_data(&k.d, 0, COPY_HEAD);
	if (e)
		fill_copied(e, m, ctx, slot, &k);
	bpf_ringbuf_submit_dynptr(&k.d, wakeup());
	return SENT;
}

/* send_uncopied sends an event without a stack, in the layout of those with one. */
static __noinline int send_uncopied(const struct moment *m)
{
	struct event_cost *e = bpf_ringbuf_reserve(&events, COPY_HEAD, 0);

	if (!e)
		return FULL;
	fill_cost(e, m);
	fill_more((__u64 *)(e + 1), m);
	__builtin_memset((__u64 *)(e + 1) + MORE_WORDS, 0, sizeof(struct copied));
	submit(e);
	return SENT;
}

#endif
