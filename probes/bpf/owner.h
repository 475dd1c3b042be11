/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls under way where exits are probed: the frame of each, and the thread or goroutine that
 * owns it.
 *
 * A call is identified by its frame: the address of its return address, which is the same
 * at its entry and at its exit. At a site where the stack pointer has moved, the cookie
 * has the distance.
 */
#ifndef ENDOSCOPE_OWNER_H
#define ENDOSCOPE_OWNER_H

#include "calls.h"
#include "memory.h"
#include "sequence.h"

struct frame {
	__u64 owner; /* the goroutine; 0: not Go */
	__u64 below; /* distance from the top of the owner's stack, or of the address space */
	__u32 tgid;
	__u32 function;
};

/*
 * The innermost call under way of a thread or goroutine, and the number of calls: the head
 * of a list in which each call refers to the next. Kept for depth and sequences.
 */
struct innermost {
	__u64 below;
	__u32 function;
	__u32 n;
};

/* A call under way. */
struct pending {
	__u64 exec_id; /* exec keeps the process but not its memory */
	__u64 wanted;  /* 0: it only counts for the depth of others */
	struct innermost around;
	struct moment m;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct frame);
	__type(value, struct pending);
} open_calls SEC(".maps");

/* The owner of a list of calls: a thread or goroutine. */
struct owner {
	__u64 exec_id, born; /* of the program and of the process: pids are reused */
	__u64 goroutine;     /* its number, as a g is reused, too. 0: a thread */
	struct bounds stack; /* of a thread */
	struct innermost calls;
	__u32 gap; /* of its sequence: see sequence.h */
	__u32 ended; /* the program ends, and its calls are being removed */
	__u64 coroutine; /* on whose stack a thread runs: coroutines.h. 0: its own */
	__u64 outermost; /* of calls: where the list ends. Only with coroutines */
	__u64 tid;       /* the thread whose stack it is, if not a coroutine's */
};

/* An owner without calls, for programs whose stack has no room for one. */
static const volatile struct owner nobody = {};

/* Whether the target has code that switches stacks: coroutines.h. */
const volatile bool coroutines = false;

struct goroutine {
	__u64 g, tgid;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct goroutine);
	__type(value, struct owner);
} goroutines SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct owner);
} owners SEC(".maps");

/*
 * The offset of Go's g from the end of the thread-local data (cmd/internal/obj/x86, on
 * Linux), if no C data follows it; 0: not known.
 */
const volatile __s64 slot_of_g = -8;

/* The result of looking up the frame at a site. */
enum place {
	FRAME_FOUND,
	FRAME_FOREIGN,    /* Go code that is not on a goroutine's stack */
	FRAME_UNREADABLE, /* a page is temporarily not mapped, as when the kernel migrates it */
};

/* place_below sets the frame's owner to g and its distance from the top of g's stack. */
static __always_inline enum place place_below(struct frame *f, __u64 g, __u64 at)
{
	struct g own;

	f->owner = g;
	f->below = 0;
	if (bpf_probe_read_user(&own, sizeof(own), (void *)g))
		return FRAME_UNREADABLE;
	if (at < own.stack.lo || at >= own.stack.hi || !is_g(&own))
		return FRAME_FOREIGN;
	f->below = own.stack.hi - at;
	return FRAME_FOUND;
}

/*
 * find_frame finds the frame of the call at a site. A goroutine may move to another
 * thread, and its stack to another address, but a frame keeps its distance from the top of
 * the stack. For FRAME_UNREADABLE the owner is probably right; the rest is not known.
 */
static __always_inline enum place find_frame(struct frame *f, const struct pt_regs *ctx, __u64 cookie)
{
	__u64 at = ctx->sp + SP_OFFSET(cookie);

	f->tgid = bpf_get_current_pid_tgid() >> 32;
	f->function = ID(cookie);
	if (!(cookie & GO_REGISTERS)) {
		f->owner = 0;
		f->below = -at;
		return FRAME_FOUND;
	}
	enum place place = place_below(f, ctx->r14, at);
	if (place == FRAME_FOUND)
		return FRAME_FOUND;
	/* Assembler has other uses for r14; where g cannot be found otherwise, it is not followed. */
	if (!slot_of_g)
		return place;
	__u64 g = 0, fs = bpf_get_current_task_btf()->thread.fsbase;
	if (bpf_probe_read_user(&g, sizeof(g), (void *)fs + slot_of_g))
		return FRAME_UNREADABLE;
	if (!g || g == ctx->r14)
		return g ? place : FRAME_FOREIGN;
	return place_below(f, g, at);
}

/* note_frame records in which frame a call is, for its context. */
static __always_inline void note_frame(struct moment *m, const struct frame *f, bool found, struct task_struct *task, __u64 sp)
{
	if (!CONTEXTUAL)
		return;
	m->owner = found ? f->owner : 0;
	m->below = !f->owner && on_signal_stack(task, sp) ? INNERMOST_FRAME : f->below;
}

/* The reported bits of a goroutine's number or address. */
#define GOROUTINE(id) ((id) & ((1ULL << 40) - 1))

/*
 * read_goroutine sets the number of the goroutine that owns the frame, or the address of
 * its g if the offset of goid is not known; 0: no goroutine. Returns false if the number
 * cannot be read: the address would look like another goroutine.
 */
static __always_inline bool read_goroutine(__u64 *number, const struct frame *f, __u64 cookie)
{
	__u64 at = GOID(cookie), id = f->owner;

	if (!((options & SEQUENCE) || recalls) || !f->owner)
		return true;
	if (at && bpf_probe_read_user(&id, sizeof(id), (__u64 *)f->owner + at + MIN_GOID))
		return false;
	*number = GOROUTINE(id);
	return true;
}

/*
 * note_owner records, at an entry, in which frame a call is, and the number of the goroutine. Not
 * inlined: until Linux 6.8 the frames of calls are rounded up to 32 bytes, and that of an entry
 * with all it calls has just room.
 */
static __noinline int note_owner(struct moment *m, struct pt_regs *ctx, __u64 cookie)
{
	struct frame f;
	bool found = find_frame(&f, ctx, cookie) == FRAME_FOUND;

	note_frame(m, &f, found, bpf_get_current_task_btf(), ctx->sp);
	if (found)
		read_goroutine(&m->goroutine, &f, cookie);
	return 0;
}

/*
 * is_own reports whether the call is of this process and program, not of an earlier one
 * with the same pid or memory.
 */
static __always_inline bool is_own(const struct pending *p, struct task_struct *task)
{
	return p->exec_id == task->self_exec_id && p->m.start >= plain(task)->group_leader->start_boottime;
}

/* The exec_id of a call that has ended: no process has it. */
#define DEAD_EXEC ~0ULL

/* remove deletes a call. It is marked as ended first, as the deletion can fail. */
static __always_inline void remove(const struct frame *f, struct pending *p)
{
	p->exec_id = DEAD_EXEC;
	bpf_map_delete_elem(&open_calls, f);
}

/* forget deletes an earlier call in this frame, if any. */
static __always_inline void forget(const struct frame *f)
{
	struct pending *p = bpf_map_lookup_elem(&open_calls, f);

	if (p)
		remove(f, p);
}

/* Whether nesting matters, so that calls are kept in lists. */
#define NESTED (options & (USE_DEPTH | SEQUENCE))

/* find_owner finds the list to which the calls of the frame's owner belong, if there is one. */
static __always_inline struct owner *find_owner(const struct frame *f, struct task_struct *task)
{
	struct goroutine g = { .g = f->owner, .tgid = f->tgid };

	if (f->owner)
		return bpf_map_lookup_elem(&goroutines, &g);
	return bpf_task_storage_get(&owners, task, NULL, 0);
}

/* is_current reports whether the list is of this process and program. */
static __always_inline bool is_current(const struct owner *o, struct task_struct *task)
{
	return o->exec_id == task->self_exec_id && o->born == plain(task)->group_leader->start_boottime;
}

/*
 * miss counts an event at a site whose frame is FRAME_UNREADABLE, and marks a gap in the
 * sequence of its owner. Returns the owner's list; NULL: there is none.
 */
static __always_inline struct owner *miss(const struct frame *f, struct task_struct *task)
{
	struct owner *o = NESTED ? find_owner(f, task) : NULL;

	COUNT_CALL(missed);
	if (!o || !is_current(o, task))
		return NULL;
	o->gap = 1;
	return o;
}

/*
 * guess_frame completes the frame of an exit for which find_frame returned
 * FRAME_UNREADABLE: it is the owner's innermost call, if that is of the same function.
 * Returns false if it is not known which call ends.
 */
static __always_inline bool guess_frame(struct frame *f, struct task_struct *task)
{
	struct owner *o = NESTED ? find_owner(f, task) : NULL;

	if (o && is_current(o, task) && (!o->calls.n || o->calls.function == f->function)) {
		f->below = o->calls.below;
		return o->calls.n;
	}
	miss(f, task);
	return false;
}

#endif
