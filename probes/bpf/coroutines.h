/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Coroutines of C: stacks between which a thread switches by code of the program's own
 * (swapcontext, Boost, assembler). Calls nest on one stack, so each stack has its own list
 * of calls (exit.h).
 *
 * The instruction that loads the stack pointer of another stack is probed. There the
 * thread's list is stored under the stack pointer that the program stores, and the list
 * that was stored under the new one is continued; if there is none, a coroutine begins. A
 * coroutine resumes with the stack pointer that it stored when it left, on any thread.
 *
 * A list that is never resumed is overwritten when its stack is used again, or evicted. Its
 * calls are unfinished.
 */
#ifndef ENDOSCOPE_COROUTINES_H
#define ENDOSCOPE_COROUTINES_H

#include "arguments.h"
#include "exit.h"
#include "opening.h"

/* A stack that is not running, by the stack pointer with which it is resumed. */
struct left {
	__u64 tgid, sp;
};

struct suspended {
	__u64 exec_id, born; /* of the program and of the process, as in owner */
	__u64 coroutine, outermost;
	struct innermost calls;
	__u32 gap;
	__u32 tid;
	struct holder holder; /* of recall.h */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, struct left);
	__type(value, struct suspended);
} stacks SEC(".maps");

/* The number of the last coroutine that began. */
volatile __u64 last_coroutine;

/*
 * The cookie of a switch: where the new stack pointer is, and by how much the old one will
 * change up to the switch.
 */
#define SWITCH_REGISTER(cookie) ((cookie) & 0x1f) /* index of the word in pt_regs */
#define SWITCH_MEMORY (1ULL << 5) /* the register has its address, less SWITCH_DISP */
#define SWITCH_SAVES (1ULL << 6)  /* the function stores the old one */
#define SWITCH_CARRY (1ULL << 7)  /* the site leads to the switch if the carry flag is set */
#define SWITCH_DOWN(cookie) ((__s64)(__s8)((cookie) >> 8) << 3)
/* What is stored of the old one, less that. */
#define SWITCH_SAVED(cookie) ((__s64)(__s8)((cookie) >> 16) << 3)
#define SWITCH_DISP(cookie) ((__s64)(__s32)((cookie) >> 32))

#define CARRY_FLAG 1 /* X86_EFLAGS_CF */

/*
 * continues_out reports whether the thread stays on its stack: code that only loads a stack
 * pointer may also leave calls (getcontext and setcontext used as setjmp and longjmp).
 */
static __always_inline bool continues_out(struct owner *o, struct task_struct *task, __u64 from, __u64 to)
{
	if (to < from)
		return false;
	if (o->calls.n && to <= -o->outermost)
		return true;
	return !o->coroutine && own_stack(&o->stack, task, from) == STACK_OWN && own_stack(&o->stack, task, to) == STACK_OWN;
}

/* find_suspended returns the list of the stack that is resumed with a stack pointer. */
static __always_inline struct suspended *find_suspended(const struct left *key, const struct owner *o)
{
	struct suspended *s = bpf_map_lookup_elem(&stacks, key);

	return s && s->exec_id == o->exec_id && s->born == o->born ? s : NULL;
}

/* switch_stack handles a switch: ctx is at its site. */
static __always_inline void switch_stack(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 from = ctx->sp + SWITCH_DOWN(cookie);
	__u64 to = read_register(ctx, SWITCH_REGISTER(cookie));
	struct left key = { .tgid = bpf_get_current_pid_tgid() >> 32 };

	if (is_closed() || !targeted(cookie, task) || ((cookie & SWITCH_CARRY) && !(ctx->flags & CARRY_FLAG)))
		return;
	struct owner *o = bpf_task_storage_get(&owners, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!o) {
		COUNT_CALL(unstored);
		return;
	}
	if (!is_current(o, task) || o->goroutine) {
		struct frame f = { .tgid = key.tgid };
		renew(o, &f, task, 0, bpf_ktime_get_boot_ns());
	}
	bool known = !(cookie & SWITCH_MEMORY) || !bpf_probe_read_user(&to, sizeof(to), (void *)to + SWITCH_DISP(cookie));
	key.sp = to;
	struct suspended *s = known ? find_suspended(&key, o) : NULL;
	if (!s && known && !(cookie & SWITCH_SAVES) && continues_out(o, task, from, to)) {
		drop_below(o, to);
		return;
	}
	struct suspended now = {
		.exec_id = o->exec_id,
		.born = o->born,
		.coroutine = o->coroutine,
		.outermost = o->outermost,
		.calls = o->calls,
		.gap = o->gap,
		.tid = o->tid,
	};
	struct holder *h = records ? bpf_task_storage_get(&holders, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE) : NULL;
	if (h)
		now.holder = *h;
	if (s) {
		o->coroutine = s->coroutine;
		o->outermost = s->outermost;
		o->calls = s->calls;
		o->gap = s->gap;
		o->tid = s->tid;
		if (h)
			*h = s->holder;
		bpf_map_delete_elem(&stacks, &key);
	} else {
		o->coroutine = __sync_fetch_and_add(&last_coroutine, 1) + 1;
		o->outermost = 0;
		o->calls = (struct innermost){};
		o->gap = !known ? 1 : (options & SEQUENCE) ? no_gap() : 0;
		o->tid = 0;
		if (h)
			*h = (struct holder){};
	}
	key.sp = from + SWITCH_SAVED(cookie);
	/* A coroutine that has ended is not resumed. */
	bool over = !now.calls.n && now.coroutine && !(cookie & SWITCH_SAVES);
	if (over)
		bpf_map_delete_elem(&stacks, &key);
	else
		bpf_map_update_elem(&stacks, &key, &now, BPF_ANY);
	if (context && over)
		end_context(now.coroutine, 0);
	if (context)
		switch_context(o->coroutine);
}

#endif
