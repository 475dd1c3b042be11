/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls whose end is seen by probes at the exits of their functions. Nothing of
 * the target is touched for it, so that a call may throw, switch stacks, grow
 * its stack or be a thousand calls deep.
 *
 * A call is known by its frame: the address of its return address, which is the
 * same at its entry and at the exit by which it leaves. Probes may lie where the
 * stack pointer has moved, by a distance that their cookie says.
 */
#ifndef ENDOSCOPE_EXIT_H
#define ENDOSCOPE_EXIT_H

#include "moment.h"
#include "event.h"

/*
 * What to add to the stack pointer at a site to get the address of the return
 * address. It takes the upper 16 bits of the cookie, which has 16 less for facts.
 */
#define SP_OFFSET(cookie) ((cookie) >> 48 << 3)

struct frame {
	__u64 owner; /* the goroutine; 0: not Go */
	__u64 below; /* how far below the top of the owner's stack, or of memory */
	__u32 tgid;
	__u32 function;
};

/* A call under way. */
struct pending {
	__u64 exec_id; /* exec keeps the process but not its memory */
	struct moment m;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct frame);
	__type(value, struct pending);
} open_calls SEC(".maps");

/* The beginning of Go's struct g (runtime/runtime2.go), which r14 points to. */
struct goroutine {
	__u64 stack_lo, stack_hi;
};

/*
 * find_frame says which call is at a site; false: it is Go's and not on a
 * goroutine's stack. A goroutine may be moved to another thread, and its stack
 * to another place; but what is on the stack keeps its distance from the top.
 */
static __always_inline bool find_frame(struct frame *f, const struct pt_regs *ctx, __u64 cookie)
{
	__u64 at = ctx->sp + SP_OFFSET(cookie);
	struct goroutine g;

	f->tgid = bpf_get_current_pid_tgid() >> 32;
	f->function = ID(cookie);
	if (!(cookie & GO_REGISTERS)) {
		f->owner = 0;
		f->below = -at;
		return true;
	}
	/* Assembler, and code that runs before there are goroutines, may have
	 * something else in r14. */
	if (bpf_probe_read_user(&g, sizeof(g), (void *)ctx->r14) || at < g.stack_lo || at >= g.stack_hi)
		return false;
	f->owner = ctx->r14;
	f->below = g.stack_hi - at;
	return true;
}

/*
 * is_own: the call is one of this process and program, not of an earlier one
 * that had its pid or memory.
 */
static __always_inline bool is_own(const struct pending *p, struct task_struct *task)
{
	return p->exec_id == task->self_exec_id && p->m.start >= task->group_leader->start_boottime;
}

/* forget drops what may be known of an earlier call in this frame. */
static __always_inline void forget(const struct frame *f)
{
	if (bpf_map_lookup_elem(&open_calls, f))
		bpf_map_delete_elem(&open_calls, f);
}

/* begin handles an entry. A call that was in its frame has been abandoned. */
static __always_inline void begin(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pending p = {};
	struct frame f;

	if (!targeted(cookie, task))
		return;
	count_hit(cookie);
	look(&p.m, ctx, cookie, task);
	bool wanted = test_entry(&p.m);
	if (!find_frame(&f, ctx, cookie)) {
		if (wanted)
			COUNT_CALL(foreign);
		return;
	}
	if (!wanted) {
		forget(&f);
		return;
	}
	p.exec_id = task->self_exec_id;
	if (bpf_map_update_elem(&open_calls, &f, &p, BPF_ANY)) {
		forget(&f);
		COUNT_CALL(overflown);
		return;
	}
	COUNT_CALL(armed);
}

/*
 * end handles an exit. Whether the process is a target was asked at the entry.
 */
static __always_inline void end(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct pending *p;
	struct frame f;

	if (!find_frame(&f, ctx, cookie))
		return;
	p = bpf_map_lookup_elem(&open_calls, &f);
	if (!p)
		return;
	if (is_own(p, task)) {
		struct moment *m = &p->m;

		COUNT_CALL(returned);
		m->time = bpf_ktime_get_boot_ns();
		m->duration = m->time - m->start;
		m->retval = ctx->ax;
		m->cookie |= cookie & NO_RETVAL;
		if (options & LATE_NAMES) { /* the event is the return */
			m->tid = (__u32)bpf_get_current_pid_tgid();
			if (options & USE_NAMES)
				read_names(m, task);
		}
		if (test_return(m))
			emit(m);
	}
	bpf_map_delete_elem(&open_calls, &f);
}

#endif
