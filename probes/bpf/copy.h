/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events with a copy of the thread's stack:
 *
 *   event_cost | words of fill_more | copied | taken, each | texts | stack
 */
#ifndef ENDOSCOPE_COPY_H
#define ENDOSCOPE_COPY_H

#include "event.h"

/* How much of a stack is copied at most; set by the loader. */
const volatile __u32 stack_bytes = 8192;

/*
 * The stack is copied by so much at a time, up to a multiple of it first: a copy
 * fails as a whole where a page is missing.
 */
#define CHUNK 1024
#define MAX_CHUNKS 65

/* What lies in front of the return addresses and the stack. */
#define COPY_HEAD (sizeof(struct event_cost) + MORE_WORDS * sizeof(__u64) + sizeof(struct copied))

/* stack_room is how much of the stack above sp is to be copied: not what lies above its end. */
static __always_inline __u32 stack_room(struct task_struct *task, __u64 sp)
{
	__u64 end = task->pid == task->tgid ? plain(task)->mm->start_stack : task->thread.fsbase;

	return sp < end && end - sp < stack_bytes ? end - sp : stack_bytes;
}

/*
 * send_copied is send where the stack is wanted. It is a global function (see calls.h).
 * How often it may send has been asked.
 */
__noinline int send_copied(struct pt_regs *ctx, struct moment *m, __u64 slot)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct return_instance *ri;
	struct texts *texts = NULL;
	__u32 room, returns = 0, got = 0, size = 0;
	__u64 from;
	struct bpf_dynptr d;

	if (!(options & SEND_STACK) || !m || !ctx) /* the first for the verifier, which then skips the rest */
		return FULL;
	from = ctx->sp;
	if (options & SEND_TEXTS) {
		char *own = bpf_task_storage_get(&scratch, task, NULL, 0);
		if (!own)
			return FULL;
		texts = (struct texts *)(own + TEXTS_AT);
		size = size_of(texts);
	}
	room = stack_room(task, from);
	ri = traps_of(task);
	for (; returns < MAX_TAKEN && ri; returns++)
		ri = BPF_CORE_READ(ri, next);
	__u32 at = COPY_HEAD + returns * sizeof(struct taken) + size;
	if (bpf_ringbuf_reserve_dynptr(&events, at + room + CHUNK, 0, &d)) {
		bpf_ringbuf_discard_dynptr(&d, BPF_RB_NO_WAKEUP);
		return FULL;
	}
	ri = traps_of(task);
	for (__u32 i = 0; i < MAX_TAKEN && i < returns && ri; i++) {
		struct taken one = {BPF_CORE_READ(ri, stack), BPF_CORE_READ(ri, orig_ret_vaddr)};
		bpf_dynptr_write(&d, COPY_HEAD + i * sizeof(one), &one, sizeof(one), 0);
		ri = BPF_CORE_READ(ri, next);
	}
	if (texts)
		bpf_dynptr_write(&d, at - size, texts, size, 0);
	__u32 part = CHUNK - (from & (CHUNK - 1));
	for (int i = 0; i < MAX_CHUNKS && got < room; i++) {
		void *to = bpf_dynptr_data(&d, at + got, CHUNK);
		if (!to || part > CHUNK || bpf_probe_read_user(to, part, (void *)(from + got)))
			break;
		got += part;
		part = CHUNK;
	}
	struct event_cost *e = bpf_dynptr_data(&d, 0, COPY_HEAD);
	if (e) {
		fill_cost(e, m);
		fill_more((__u64 *)(e + 1), m);
		struct copied *c = (void *)((__u64 *)(e + 1) + MORE_WORDS);
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
		c->returns = returns;
		c->texts = size;
		c->bytes = got;
	}
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);
	bpf_ringbuf_submit_dynptr(&d, waiting > wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	return SENT;
}

/* send_uncopied is send where the stack is wanted of other events: of this one there is none. */
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
