/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls under way whose return is trapped, on a stack per thread. A call is identified by
 * the address of its return address: sp at the entry, sp - 8 at the return. This pairs
 * recursion, re-entrance and tail calls correctly, and shows which calls were abandoned by
 * longjmp or by an exception.
 */
#ifndef ENDOSCOPE_CALLS_H
#define ENDOSCOPE_CALLS_H

#include "memory.h"
#include "self.h"
#include "sequence.h"
#include "values.h"

/* The kernel keeps at most 64 return traps per thread (MAX_URETPROBE_DEPTH). */
#define MAX_CALLS 64
#define MAX_CALLS_MASK (MAX_CALLS - 1)

/* A call whose return is awaited. */
struct call {
	__u64 sp;
	__u32 function; /* DEAD: returned before a call above it did */
	__u16 wanted;   /* 0: it only counts for the depth of others */
	__u16 number;   /* its index in the thread, also of its texts: values.h */
	struct moment m;
};
#define DEAD 0xffffffff

struct thread {
	__u64 exec_id; /* exec keeps the thread but not its memory */
	struct bounds stack;
	__u32 n;
	__u32 gap; /* of its sequence: see sequence.h */
	struct call calls[MAX_CALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

static long note_bounds(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct bounds *b = data;

	b->lo = vma->vm_start;
	b->hi = vma->vm_end;
	return 0;
}

enum { STACK_OWN, STACK_FOREIGN, STACK_UNKNOWN };

/*
 * The part below the anchor that is stack in any case: exec maps 128 KiB below the start
 * of the main thread's stack, and no C library's thread stack is smaller than 16 KiB,
 * control block and thread-local data included.
 */
#define SURE_MAIN (128 << 10)
#define SURE_THREAD (12 << 10)

/*
 * The size of a thread's stack in glibc where RLIMIT_STACK is unlimited
 * (ARCH_STACK_DEFAULT_SIZE), or larger than the address space.
 */
#define UNLIMITED_STACK (2 << 20)
#define MAX_STACK (1ULL << 40)

/* sure_stack returns the part of the thread's own stack next to its anchor. */
static __always_inline struct bounds sure_stack(struct task_struct *task)
{
	bool leader = task->pid == task->tgid;
	__u64 anchor = leader ? plain(task)->mm->start_stack : task->thread.fsbase;
	struct bounds b = { anchor - (leader ? SURE_MAIN : SURE_THREAD) + 1, anchor };

	return b;
}

/*
 * find_stack is own_stack for an sp outside known. It is a global function (see the
 * searches below).
 */
__noinline int find_stack(struct bounds *known, __u64 sp)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool leader = task->pid == task->tgid;
	struct bounds sure = sure_stack(task);
	__u64 anchor = sure.hi;

	if (!known)
		return STACK_UNKNOWN;
	if (sure.lo <= sp && sp < sure.hi) {
		*known = sure;
		return STACK_OWN;
	}
	if (options & BEFORE_5_17)
		return STACK_UNKNOWN;
	struct bounds b = {};
	if (bpf_find_vma(task, anchor, note_bounds, &b, 0))
		return STACK_UNKNOWN;
	if (anchor < b.hi)
		b.hi = anchor;
	if (!leader) {
		__u64 end = (anchor | 4095) + 1; /* the control block is its last page */
		__u64 size = plain(task)->signal->rlim[RLIMIT_STACK].rlim_cur;
		if (size > MAX_STACK)
			size = UNLIMITED_STACK;
		if (b.lo + size < end)
			b.lo = end - size;
	}
	*known = b;
	return b.lo <= sp && sp < b.hi ? STACK_OWN : STACK_FOREIGN;
}

/*
 * own_stack reports whether sp lies in the stack that the kernel or the C library gave to
 * the thread. A return trap on another stack (a coroutine's, a signal's) kills the target
 * when it switches stacks. A leader's stack is the mapping of start_stack. Another
 * thread's stack is in the mapping that also holds its control block, below that block.
 * The mapping may include a stack above, or, without a guard page, one below; the latter
 * is excluded by the size that the C library gives to a stack. An alternate signal stack
 * may lie inside. The result is cached in known, as a thread's own stack does not move.
 *
 * The mapping cannot be looked up while another thread waits to change the address space,
 * which is common when many threads start together. A call near the anchor needs no
 * lookup.
 */
static __always_inline int own_stack(struct bounds *known, struct task_struct *task, __u64 sp)
{
	if (on_signal_stack(task, sp))
		return STACK_FOREIGN;
	if (known->lo <= sp && sp < known->hi)
		return STACK_OWN;
	return find_stack(known, sp);
}

/* Offsets of the stack pointer in jmp_buf (JB_RSP of glibc and musl), and of the value
 * that glibc mangles it with in the thread's control block (pointer_guard). */
#define JMP_BUF_SP 0x30
#define POINTER_GUARD 0x30

/*
 * jump_target returns the stack pointer after a longjmp to the jmp_buf at env; 0 if it is
 * not in the thread's own stack.
 */
static __always_inline __u64 jump_target(struct bounds *known, struct task_struct *task, __u64 env)
{
	__u64 sp = 0, guard = 0;

	if (bpf_probe_read_user(&sp, sizeof(sp), (void *)env + JMP_BUF_SP))
		return 0;
	if (own_stack(known, task, sp) == STACK_OWN)
		return sp;
	if (bpf_probe_read_user(&guard, sizeof(guard), (void *)task->thread.fsbase + POINTER_GUARD))
		return 0;
	sp = (sp >> 17 | sp << 47) ^ guard;
	return own_stack(known, task, sp) == STACK_OWN ? sp : 0;
}

/*
 * is_chained reports whether the call's return address is already the trampoline: it was
 * reached by a tail call from a call that is armed at the same sp.
 */
static __always_inline bool is_chained(struct task_struct *task, __u64 sp)
{
	__u64 trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	__u64 ret = 0;

	bpf_probe_read_user(&ret, sizeof(ret), (void *)sp);
	return ret && ret == trampoline;
}

/* index_of returns the index of call n. The mask is for the verifier: clang must not leave it out. */
static __always_inline __u32 index_of(__u32 n)
{
	n--;
	asm volatile("" : "+r"(n));
	return n & MAX_CALLS_MASK;
}

/* The call n of a thread, counted from 1. */
#define CALL(t, n) (&(t)->calls[index_of(n)])

/* held returns the number of calls on the thread's stack. */
static __always_inline __u32 held(const struct thread *t)
{
	__u32 n = t->n;

	return n <= MAX_CALLS ? n : MAX_CALLS;
}

/*
 * The searches are global functions: the verifier checks each once. If they were inlined,
 * it would check the code after a search once for each number of iterations, which takes
 * tens of milliseconds. A global function can return a number but no pointer, and must
 * check its arguments for NULL.
 *
 * They go down from call n. A step returns 1 to stop.
 */
struct search {
	const struct thread *t;
	__u64 sp;
	__u32 function;
	__u32 n;
};

/* The verifier checks every iteration of a loop, but the body of bpf_loop only once or twice. */
#define SEARCH(step, s)                                                     \
	do {                                                                \
		if (options & BEFORE_5_17) {                                \
			for (__u32 i = 0; i < MAX_CALLS; i++)               \
				if (step(i, &(s)))                          \
					break;                              \
		} else {                                                    \
			bpf_loop(MAX_CALLS, step, &(s), 0);                 \
		}                                                           \
	} while (0)

static long step_alive(__u32 i, void *ctx)
{
	struct search *s = ctx;

	if (!s->n || CALL(s->t, s->n)->sp >= s->sp)
		return 1;
	s->n--;
	return 0;
}

/* search_alive returns how many calls remain without those whose sp is below alive. */
__noinline __u32 search_alive(const struct thread *t, __u64 alive)
{
	if (!t)
		return 0;
	struct search s = {.t = t, .sp = alive, .n = held(t)};
	SEARCH(step_alive, s);
	return s.n;
}

static long step_live(__u32 i, void *ctx)
{
	struct search *s = ctx;

	if (!s->n || CALL(s->t, s->n)->function != DEAD)
		return 1;
	s->n--;
	return 0;
}

/* search_live returns the last call that has not returned; 0: none. */
__noinline __u32 search_live(const struct thread *t)
{
	if (!t)
		return 0;
	struct search s = {.t = t, .n = held(t)};
	SEARCH(step_live, s);
	return s.n;
}

static long step_returning(__u32 i, void *ctx)
{
	struct search *s = ctx;

	if (!s->n)
		return 1;
	const struct call *c = CALL(s->t, s->n);
	if (c->sp > s->sp) {
		s->n = 0;
		return 1;
	}
	if (c->sp == s->sp && c->function == s->function)
		return 1;
	s->n--;
	return 0;
}

/* search_returning returns the call of function that returns to sp; 0: none. */
__noinline __u32 search_returning(const struct thread *t, __u32 function, __u64 sp)
{
	if (!t)
		return 0;
	struct search s = {.t = t, .sp = sp, .function = function, .n = held(t)};
	SEARCH(step_returning, s);
	return s.n;
}

static long step_left(__u32 i, void *ctx)
{
	struct search *s = ctx;

	if (!s->n)
		return 1;
	const struct call *c = CALL(s->t, s->n);
	if (c->sp >= s->sp && c->function != DEAD)
		return 1;
	s->n--;
	return 0;
}

/* search_left returns how many calls remain when one has returned to sp. */
__noinline __u32 search_left(const struct thread *t, __u64 sp)
{
	if (!t)
		return 0;
	struct search s = {.t = t, .sp = sp, .n = held(t)};
	SEARCH(step_left, s);
	return s.n;
}

/* The calls of t after the first n, which an event at time shows to be abandoned. */
struct abandoned {
	struct thread *t;
	__u32 n;
	__u64 time;
};

static long abandon_last(__u32 i, void *ctx)
{
	struct abandoned *a = ctx;
	__u32 n = held(a->t) - i;

	if (n <= a->n || n > MAX_CALLS)
		return 1;
	struct call *c = CALL(a->t, n);
	if (c->function != DEAD && c->wanted)
		unwound(&a->t->gap, &c->m, a->time);
	return 0;
}

/* The time that calls after the first n spent in other calls. */
struct legacy {
	struct thread *t;
	__u32 n;
	__u64 inner;
};

static long step_inherit(__u32 i, void *ctx)
{
	struct legacy *l = ctx;
	__u32 n = held(l->t) - i;

	if (n <= l->n || n > MAX_CALLS)
		return 1;
	struct call *c = CALL(l->t, n);
	if (c->function == DEAD) /* returned; its self time still needs inner: see take */
		return 0;
	l->inner += c->m.inner;
	c->m.inner = 0;
	return 0;
}

/* inherit adds the inner time of abandoned calls, those after the first n, to call n. */
__noinline int inherit(struct thread *t, __u32 n)
{
	if (!(options & USE_SELF) || !t) /* the first test lets the verifier skip the rest */
		return 0;
	struct legacy l = {.t = t, .n = n};
	SEARCH(step_inherit, l);
	if (n > 0 && n <= MAX_CALLS)
		CALL(t, n)->m.inner += l.inner;
	return 0;
}

/* cut removes all but the first n calls of t. */
static __always_inline void cut(struct thread *t, __u32 n, __u64 time)
{
	if ((options & USE_SELF) && n < held(t))
		inherit(t, n);
	if ((options & SEQUENCE) && n < held(t)) {
		struct abandoned a = {.t = t, .n = n, .time = time};
		bpf_loop(MAX_CALLS, abandon_last, &a, 0);
	}
	t->n = n;
}

/*
 * prune removes abandoned calls: those below sp, and those at sp unless this is a tail
 * call (the kernel's rule, arch_uretprobe_is_alive).
 */
static __always_inline void prune(struct thread *t, struct task_struct *task, __u64 sp, __u64 time)
{
	__u32 n = held(t);

	if (n > 0 && CALL(t, n)->sp <= sp)
		cut(t, search_alive(t, is_chained(task, sp) ? sp : sp + 1), time);
}

/* depth_of returns the number of calls that have not returned. */
static __always_inline __u32 depth_of(struct thread *t)
{
	__u32 n = held(t);

	if (n > 0 && CALL(t, n)->function == DEAD)
		n = search_live(t);
	return n > 0 ? CALL(t, n)->m.depth + 1 : 0;
}

/*
 * take finds the call that returns to sp, and removes it with all above it. outer is set
 * to the enclosing call, if any. Other calls at the same sp stay: tail calls return one
 * after the other. Nearly always it is the last call, and no search is needed.
 */
static __always_inline struct call *take(struct thread *t, __u32 function, __u64 sp, __u64 time, struct moment **outer)
{
	struct call *found = NULL;
	__u32 n = held(t);

	if (n > 0) {
		struct call *last = CALL(t, n);
		struct call *around = CALL(t, n - 1);
		if (last->sp == sp && last->function == function && (n == 1 || around->function != DEAD)) {
			t->n = n - 1;
			if (n > 1)
				*outer = &around->m;
			return last;
		}
	}
	n = search_returning(t, function, sp);
	if (n > 0) {
		found = CALL(t, n);
		if (n > 1)
			*outer = &CALL(t, n - 1)->m;
		if (options & USE_SELF)
			inherit(t, n);
		found->function = DEAD;
	}
	cut(t, search_left(t, sp), time);
	return found;
}

#endif
