/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls whose end is seen by probes at the exits of their functions. The target's stack is
 * not modified, so a call may throw, switch stacks, grow its stack or be nested a thousand
 * deep.
 */
#ifndef ENDOSCOPE_EXIT_H
#define ENDOSCOPE_EXIT_H

#include "aggregate.h"
#include "calls.h"
#include "cost.h"
#include "entry.h"
#include "gate.h"
#include "generation.h"
#include "suspension.h"
#include "memory.h"
#include "owner.h"
#include "recall.h"
#include "self.h"
#include "sequence.h"
#include "standby.h"
#include "target.h"
#include "values.h"

struct unwinding {
	struct owner *o;
	struct frame f;
	struct innermost calls;
	__u64 until, time;
	__u64 inner; /* time that the removed calls spent in other calls */
};

static long drop_innermost(__u32 i, void *data)
{
	struct unwinding *u = data;

	if (!u->calls.n || u->calls.below < u->until)
		return 1;
	u->f.below = u->calls.below;
	u->f.function = u->calls.function;
	struct pending *p = bpf_map_lookup_elem(&open_calls, &u->f);
	if (!p) {
		/* Its callers cannot be found any more. */
		__builtin_memset(&u->calls, 0, sizeof(u->calls));
		if (options & SEQUENCE)
			u->o->gap = 1;
		return 1;
	}
	if ((options & SEQUENCE) && p->wanted)
		unwound(&u->o->gap, &p->m, u->time);
	if (options & USE_SELF)
		u->inner += p->m.inner;
	u->calls = p->around;
	remove(&u->f, p);
	return 0;
}

#define MAX_DEPTH 0xffff /* of an event */

/* spend_in adds ns to the time that the innermost call of calls (of f's owner) spent in other calls. */
static __always_inline void spend_in(const struct innermost *calls, const struct frame *f, __u64 ns)
{
	if (!(options & USE_SELF) || !calls->n)
		return;
	struct frame outer = *f;
	outer.below = calls->below;
	outer.function = calls->function;
	struct pending *p = bpf_map_lookup_elem(&open_calls, &outer);
	if (p)
		spend(&p->m, ns);
}

/* drop_all removes the calls for drop_from. It is not inlined, as most entries do not
 * need its stack. */
static __noinline int drop_all(struct owner *o, const struct frame *f, __u64 until, __u64 time)
{
	struct unwinding u = { .o = o, .f = *f, .calls = o->calls, .until = until, .time = time };

	bpf_loop(MAX_DEPTH + 1, drop_innermost, &u, 0);
	o->calls = u.calls;
	spend_in(&u.calls, f, u.inner);
	return 0;
}

/*
 * drop_from removes the calls of o, the owner of frame f, that are at until or further in.
 * An event at time shows that they were abandoned.
 */
static __always_inline void drop_from(struct owner *o, const struct frame *f, __u64 until, __u64 time)
{
	if (o->calls.n && o->calls.below >= until)
		drop_all(o, f, until, time);
}

/* renew empties a list that was left by an earlier program or goroutine. */
static __always_inline void renew(struct owner *o, const struct frame *f, struct task_struct *task, __u64 goroutine, __u64 time)
{
	__u32 gap = 0;

	if (options & SEQUENCE) {
		gap = no_gap();
		drop_from(o, f, 0, time);
		if (o->goroutine == goroutine && o->exec_id)
			gap = o->gap;
		if (began_unseen(task, goroutine))
			gap = 1;
	}
	__builtin_memset(o, 0, sizeof(*o));
	o->gap = gap;
	o->exec_id = task->self_exec_id;
	o->born = plain(task)->group_leader->start_boottime;
	o->goroutine = goroutine;
	o->tid = (__u32)bpf_get_current_pid_tgid();
}

/*
 * owner_of finds or creates the list of the frame's owner. A list left by an earlier
 * program or goroutine is emptied.
 */
static __always_inline struct owner *owner_of(const struct frame *f, struct task_struct *task, const struct moment *m)
{
	struct owner *o = find_owner(f, task);

	if (!o && f->owner) {
		struct goroutine g = { .g = f->owner, .tgid = f->tgid };
		bpf_map_update_elem(&goroutines, &g, (const void *)&nobody, BPF_NOEXIST);
		o = bpf_map_lookup_elem(&goroutines, &g);
	} else if (!o) {
		o = bpf_task_storage_get(&owners, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	}
	if (!o)
		return NULL;
	if (!is_current(o, task) || o->goroutine != m->goroutine)
		renew(o, f, task, m->goroutine, m->time);
	return o;
}

/*
 * is_listed reports whether a call of a thread is in the list of the stack that the thread
 * runs on: not if the thread has taken over the stack of another without a switch.
 */
static __always_inline bool is_listed(const struct owner *o, const struct pending *p)
{
	if (coroutines)
		return p->m.goroutine == o->coroutine && (o->coroutine || p->m.tid == o->tid);
	return p->m.tid == (__u32)bpf_get_current_pid_tgid();
}

/*
 * unlist removes p, the call in frame f, from its owner's list, and abandons the calls
 * further in. Returns false if p is not in the list. A call of another thread whose stack
 * this thread has taken over does not affect this thread's calls.
 */
static __always_inline bool unlist(struct owner *o, const struct frame *f, const struct pending *p, __u64 time)
{
	if (!f->owner && !is_listed(o, p))
		return false;
	drop_from(o, f, f->below + 1, time);
	if (!o->calls.n || o->calls.below != f->below || o->calls.function != f->function)
		return false;
	o->calls = p->around;
	return true;
}

/* drop_goroutine removes the calls of a goroutine that exits: its g will be reused. */
static __always_inline void drop_goroutine(__u64 g)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct frame f = { .owner = g, .tgid = bpf_get_current_pid_tgid() >> 32 };
	struct owner *o = find_owner(&f, task);

	if (o && is_current(o, task) && !is_closed())
		drop_from(o, &f, 0, bpf_ktime_get_boot_ns());
}

/* land removes the calls below a function that continues after a panic was recovered: ctx
 * is at the entry of runtime.deferreturn, which that function calls. */
static __always_inline void land(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct frame f;

	if (is_closed())
		return;
	enum place place = find_frame(&f, ctx, cookie);
	if (place != FRAME_FOUND) {
		if (place == FRAME_UNREADABLE)
			miss(&f, task);
		return;
	}
	struct owner *o = find_owner(&f, task);
	if (o && is_current(o, task))
		drop_from(o, &f, f.below, bpf_ktime_get_boot_ns());
}

/* is_elsewhere reports whether sp lies neither in the thread's own stack nor in that of the
 * coroutine that it runs. */
static __always_inline bool is_elsewhere(struct owner *o, struct task_struct *task, __u64 sp)
{
	if (coroutines && o->coroutine)
		return on_signal_stack(task, sp);
	int stack = own_stack(&o->stack, task, sp);

	/* A stack that cannot be looked up is the thread's: others are known by their switches. */
	return stack == STACK_FOREIGN || (!coroutines && stack == STACK_UNKNOWN);
}

/* open_owner returns the thread's list if it has calls under way. */
static __always_inline struct owner *open_owner(struct task_struct *task)
{
	struct owner *o = bpf_task_storage_get(&owners, task, NULL, 0);

	return o && o->calls.n && is_current(o, task) && !is_closed() ? o : NULL;
}

/* drop_below removes the calls of a thread that continues with the stack pointer sp: those
 * whose return address lies below. */
static __always_inline void drop_below(struct owner *o, __u64 sp)
{
	struct frame f = { .tgid = bpf_get_current_pid_tgid() >> 32 };

	drop_from(o, &f, -(sp - 8), bpf_ktime_get_boot_ns());
}

/*
 * unwind removes the calls that an exception leaves: ctx is at the entry of
 * _Unwind_SetIP, whose first argument has, at offset, the stack pointer with which the
 * handler's frame continues.
 */
static __always_inline void unwind(struct pt_regs *ctx, __u64 offset)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner *o = open_owner(task);
	__u64 sp = 0;

	/* Frames of another stack are unrelated to the calls of o. */
	if (o && !bpf_probe_read_user(&sp, sizeof(sp), (void *)ctx->di + offset) && !is_elsewhere(o, task, sp))
		drop_below(o, sp);
}

/* jump removes the calls that longjmp leaves; ctx is at its entry. */
static __always_inline void jump(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner *o = open_owner(task);

	if (!o || (coroutines && o->coroutine)) /* found late: its stack's bounds are not known */
		return;
	__u64 sp = jump_target(&o->stack, task, ctx->di);
	if (sp)
		drop_below(o, sp);
}

/* drop_thread removes the calls of a thread that ends. */
static __always_inline void drop_thread(void)
{
	struct owner *o = bpf_task_storage_get(&owners, bpf_get_current_task_btf(), NULL, 0);
	struct frame f = { .tgid = bpf_get_current_pid_tgid() >> 32 };

	if (o && !is_closed())
		drop_from(o, &f, 0, bpf_ktime_get_boot_ns());
}

struct ending {
	__u64 tgid, time;
};

static long drop_ending(void *map, const struct goroutine *g, struct owner *o, struct ending *e)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct frame f = { .owner = g->g, .tgid = e->tgid };

	/* Threads that end at the same time may each find that they are the last. */
	if (g->tgid == e->tgid && is_current(o, task) && !__sync_lock_test_and_set(&o->ended, 1))
		drop_from(o, &f, 0, e->time);
	return 0;
}

/*
 * drop_goroutines removes the calls of all goroutines of a target when its last thread
 * ends. (Before Linux 6.16 the executable of an ending process is not known: the calls of
 * a target selected by executable remain.)
 */
static __always_inline void drop_goroutines(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (plain(task)->signal->live.counter || is_closed() || !targeted(ONLY_TARGETS, task))
		return;
	struct ending e = { .tgid = bpf_get_current_pid_tgid() >> 32, .time = bpf_ktime_get_boot_ns() };
	bpf_for_each_map_elem(&goroutines, drop_ending, &e, 0);
}

/* note_pending stores a call under way, followed by its texts. */
static __always_inline long note_pending(const struct frame *f, const struct pending *p, struct task_struct *task)
{
	if (!(options & KEEP_TEXTS))
		return bpf_map_update_elem(&open_calls, f, p, BPF_ANY);
	char *own = bpf_task_storage_get(&scratch, task, NULL, 0);
	if (!own)
		return -1;
	struct pending *whole = (struct pending *)(own + TEXTS_AT) - 1;
	*whole = *p;
	return bpf_map_update_elem(&open_calls, f, whole, BPF_ANY);
}
_Static_assert(sizeof(struct pending) <= TEXTS_AT, "a call fits in front of texts");

/* The call that begin is building: too large for a program's stack. It belongs to the
 * thread, so that no other program of the CPU can overwrite it. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct pending);
} beginning SEC(".maps");

/* new_call returns a zeroed call; NULL: out of memory. */
static __always_inline struct pending *new_call(struct task_struct *task)
{
	struct pending *p = bpf_task_storage_get(&beginning, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (p)
		__builtin_memset(p, 0, sizeof(*p));
	return p;
}

/* begin handles an entry. An earlier call in the same frame was abandoned. */
static __always_inline void begin(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner *o = NULL;
	struct pending *p;
	bool followed = false;
	struct frame f;

	if (stands_by(cookie) || is_suspended(cookie))
		return;
	bool open = admitted();
	if (!open && !NESTED) {
		if (find_frame(&f, ctx, cookie) == FRAME_FOUND)
			forget(&f);
		return;
	}
	if (!targeted(cookie, task) || is_closed_to(cookie))
		return;
	count_hit(cookie);
	p = new_call(task);
	if (!p) {
		if (find_frame(&f, ctx, cookie) == FRAME_FOUND) {
			forget(&f);
			o = NESTED ? find_owner(&f, task) : NULL;
			if (o && is_current(o, task))
				o->gap = 1;
		}
		if (open)
			COUNT_CALL(unstored);
		return;
	}
	__u64 before = covered();
	look(&p->m, ctx, cookie, task);
	enum place place = find_frame(&f, ctx, cookie);
	if (place == FRAME_FOUND && !read_goroutine(&p->m.goroutine, &f, cookie))
		place = FRAME_UNREADABLE;
	bool found = place == FRAME_FOUND;
	note_frame(&p->m, &f, found, task, ctx->sp);
	if (options & SEND_FRAME)
		p->m.address = -f.below;
	if (NESTED && found) {
		o = owner_of(&f, task, &p->m);
		if (coroutines && o && !f.owner)
			p->m.goroutine = o->coroutine;
		if (o && !f.owner && is_elsewhere(o, task, ctx->sp)) {
			/* Calls on another stack are not nested in those of the thread. */
			p->m.depth = o->calls.n;
			p->m.below = INNERMOST_FRAME;
			found = false;
		} else if (o) {
			drop_from(o, &f, f.below, p->m.time);
			p->around = o->calls;
			p->m.depth = p->around.n;
		}
	}
	p->wanted = open && counts_outermost(&p->m) && test_entry(&p->m);
	if (!found) {
		if (p->wanted && place == FRAME_UNREADABLE) {
			o = miss(&f, task);
			p->m.goroutine = o ? o->goroutine : 0;
		} else if (p->wanted) {
			COUNT_CALL(foreign);
		}
		goto out;
	}
	if (!p->wanted && !(options & USE_DEPTH)) {
		if (!NESTED)
			forget(&f);
		return;
	}
	p->exec_id = task->self_exec_id;
	note_caller(&p->m, ctx, ctx->sp + SP_OFFSET(cookie));
	if ((NESTED && (!o || o->calls.n >= MAX_DEPTH)) || note_pending(&f, p, task)) {
		forget(&f);
		if (p->wanted)
			COUNT_CALL(overflown);
		goto out;
	}
	followed = true;
	if (NESTED && o) {
		if (coroutines && !o->calls.n)
			o->outermost = f.below;
		o->calls.below = f.below;
		o->calls.function = f.function;
		o->calls.n++;
	}
	if (p->wanted)
		COUNT_ARMED(&p->m);
out:
	if (!p->wanted)
		return;
	if (options & SEQUENCE)
		entered(ctx, ctx->sp + SP_OFFSET(cookie), o ? &o->gap : NULL, &p->m, followed);
	else if (!(options & AT_RETURN) && cover(&p->m, before, false))
		emit(ctx, &p->m, ctx->sp + SP_OFFSET(cookie));
}

/*
 * end handles an exit. Whether the process is a target was checked at the entry.
 */
static __always_inline void end(struct pt_regs *ctx, __u64 cookie)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct owner *o = NULL;
	struct pending *p;
	struct frame f;

	if (is_closed())
		return;
	enum place place = find_frame(&f, ctx, cookie);
	if (place == FRAME_FOREIGN || (place == FRAME_UNREADABLE && !guess_frame(&f, task)))
		return;
	p = bpf_map_lookup_elem(&open_calls, &f);
	if (!p) {
		if (options & SEND_FRAME)
			tell_over(cookie, -f.below);
		return;
	}
	if (is_own(p, task)) {
		__u64 before = covered();
		__u64 now = bpf_ktime_get_boot_ns();
		if (NESTED) {
			o = find_owner(&f, task);
			bool listed = o && is_current(o, task) && unlist(o, &f, p, now);
			/* A call of another thread whose stack this one has taken
			 * over, or one whose place in the list was lost. */
			if ((options & SEQUENCE) && !listed) {
				if (o && p->wanted)
					o->gap = 1;
				if (!coroutines)
					return;
			}
			if (coroutines && !listed) {
				if (p->wanted)
					COUNT_CALL(unlisted);
				goto done;
			}
			/* The inner time of such a call is not known either. */
			if ((options & USE_SELF) && !listed)
				goto done;
		}
		if (p->wanted) {
			struct moment *m = &p->m;

			COUNT_RETURNED(m);
			conclude(m, now);
			m->retval = ctx->ax;
			m->cookie |= cookie & NO_RETVAL;
			if (options & (USE_RESULT | USE_TEXTS))
				read_result(m, ctx, task, (options & KEEP_TEXTS) ? (struct texts *)(p + 1) : NULL, ~0);
			take_cost(m, task);
			if (options & LATE_NAMES) { /* the event is the return */
				m->tid = (__u32)bpf_get_current_pid_tgid();
				if (options & USE_NAMES)
					read_names(m, task);
			}
			if (options & SEQUENCE) {
				if (o)
					tell(ctx, ctx->sp + SP_OFFSET(cookie), &o->gap, m, LEAVE);
			} else if ((options & AT_RETURN) && settle(m) && test_return(m) && cover(m, before, true)) {
				emit(ctx, m, ctx->sp + SP_OFFSET(cookie));
			}
		}
		spend_in(&p->around, &f, p->wanted ? p->m.duration : now - p->m.start);
	}
done:
	remove(&f, p);
}

#endif
