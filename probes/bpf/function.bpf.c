//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Function entries and returns, of one query.
 *
 * Each query has these programs, and maps, of its own; only the ring buffer is
 * common to all. The kernel runs every query's program in one trap. Three ways
 * to attach:
 *
 *   entry               entries only
 *   session             entry and return in one program (Linux 6.13)
 *   pair_entry/_return  the same with two links, for kernels before it
 *
 * What a query wants of its calls is constant from loading on, so the verifier
 * removes what it does not want; which calls it wants is decided by test_entry
 * and test_return, whose bodies the loader replaces (package codegen).
 *
 * Calls whose return is awaited are kept on a stack per thread. A call is
 * identified by the address of its return address: at the entry that is sp, at
 * the return sp - 8. That pairs recursion, re-entrance and tail calls rightly,
 * and shows which calls were abandoned by longjmp or by an exception.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

/* The kernel keeps at most 64 return traps per thread (MAX_URETPROBE_DEPTH). */
#define MAX_CALLS 64
#define MAX_CALLS_MASK (MAX_CALLS - 1)
#define TASK_COMM_LEN 16
#define ARGS 6

/* What the query wants: bits of `options`. */
enum {
	AT_RETURN = 1 << 0,    /* events at returns, else at entries */
	USE_ARGS = 1 << 1,     /* the integer argument registers are looked at */
	USE_NAMES = 1 << 2,    /* so are the names of process and thread, */
	LATE_NAMES = 1 << 3,   /* as they are at the return */
	USE_DEPTH = 1 << 4,    /* calls count for the depth of others, wanted or not */
	SEND_ARGS = 1 << 5,    /* events carry the arguments */
	SEND_NAMES = 1 << 6,   /* events carry the names */
	PAIR = 1 << 7,         /* returns are seen whatever was said at the entry */
	ONLY_PIDS = 1 << 8,    /* targets are processes in `targets`, by pid, */
	ONLY_COMMS = 1 << 9,   /* by the leader's comm, */
	ONLY_EXES = 1 << 10,   /* or by executable: any of those that are set */
};
const volatile __u32 options = 0;

/* Says whose event it is. */
const volatile __u16 query = 0;

/*
 * A probe's cookie is what there is to know of its function: the id in the
 * lower half (bits 0 to 23), these flags, and in the upper half what the
 * query's tests of its names came to.
 */
#define ID(cookie) ((__u32)(cookie) & 0xffffff)
#define GO_REGISTERS (1ULL << 24)  /* arguments are where Go's ABIInternal puts them */
#define ONLY_TARGETS (1ULL << 25)  /* look whether the process is a target */

/* Monotonic counts. Calls in flight or unfinished: armed - returned. */
struct counters {
	__u64 armed;        /* calls whose return is awaited */
	__u64 returned;     /* those of them that returned */
	__u64 lost;         /* events that found the ring full */
	__u64 foreign;      /* return not armed: sp is not in the thread's stack */
	__u64 unchecked;    /* return not armed: the stack could not be looked up */
	__u64 nesting;      /* return not armed: too many nested calls */
	__u64 unstored;     /* return not armed: no memory for the thread's calls */
	__u64 inherited;    /* returns of calls that began before the fork */
};

enum { TARGET_PID = 1, TARGET_COMM = 2, TARGET_EXE = 3 };

/* A process that is a target. id: pid; comm, padded with 0; or device and inode. */
struct target {
	__u64 kind;
	__u64 id[2];
};

/*
 * What is known of a call at its entry, and then at its return. This is what
 * the tests look at; package codegen's layout has the offsets.
 */
struct moment {
	__u64 cookie;
	__u64 time;     /* CLOCK_BOOTTIME, of the event */
	__u64 start;    /* of the entry */
	__u64 duration; /* at the return */
	__u64 retval;   /* at the return */
	__u64 pid, tid;
	__u64 depth;
	__u64 args[ARGS];
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
};

/*
 * Events. The ring buffer wants sizes known to the verifier, so there are
 * five. A query's events are all alike: AT_RETURN, SEND_ARGS and SEND_NAMES
 * say which they are.
 */
struct event {
	__u64 time; /* CLOCK_BOOTTIME */
	__u32 function;
	__u32 pid, tid;
	__u16 query;
	__u16 depth;
};
struct event_return {
	struct event e;
	__u64 start; /* 0 in an entry event of one of the larger layouts */
	__u64 retval;
};
struct event_names {
	struct event_return r;
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
};
struct event_args {
	struct event_return r;
	__u64 args[ARGS];
};
struct event_full {
	struct event_return r;
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
	__u64 args[ARGS];
};

/* Keeps the types in the object for bpf2go, which makes Go's of them. */
const struct moment *const type_moment __attribute__((unused)) = 0;
const struct event *const type_event __attribute__((unused)) = 0;
const struct event_return *const type_event_return __attribute__((unused)) = 0;
const struct event_names *const type_event_names __attribute__((unused)) = 0;
const struct event_args *const type_event_args __attribute__((unused)) = 0;
const struct event_full *const type_event_full __attribute__((unused)) = 0;

/* A call whose return is awaited. */
struct call {
	__u64 sp;
	__u32 function; /* DEAD: returned before a call above it did */
	__u32 wanted;   /* else it only counts for the depth of others */
	struct moment m;
};
#define DEAD 0xffffffff

struct thread {
	__u64 exec_id; /* exec keeps the thread but not its memory */
	__u64 stack_lo, stack_hi;
	__u32 n;
	__u32 pad;
	struct call calls[MAX_CALLS];
};

/* Entries of target processes, wanted or not, by function. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, __u64);
} hits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct target);
	__type(value, __u8);
} targets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

/* Common to all queries: the loader puts one map here. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24); /* set by the loader */
} events SEC(".maps");

/*
 * The reader looks at the ring every few milliseconds on its own; it is woken
 * only when more than this is waiting, for a wake-up costs as much as the probe.
 */
const volatile __u64 wake_bytes = 1 << 22;

extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern bool bpf_session_is_return(void) __ksym __weak;

/* Programs of one CPU can interrupt each other where the kernel is preemptible. */
#define COUNT(field) __sync_fetch_and_add(&(field), 1)

/* The query's counters: the map has one entry, so that they are always there. */
#define COUNT_CALL(field)                                                   \
	do {                                                                \
		__u32 zero = 0;                                             \
		struct counters *c_ = bpf_map_lookup_elem(&counts, &zero);  \
		if (c_)                                                     \
			COUNT(c_->field);                                   \
	} while (0)

/*
 * Whether the call is wanted, as far as can be said at its entry, and finally.
 * The loader puts the query's condition here; the barriers keep the compiler
 * from knowing what is tested and what the answer is.
 */
static __noinline int test_entry(const struct moment *m)
{
	int wanted = 1;

	asm volatile("" : "+r"(wanted) : "r"(m) : "memory");
	return wanted;
}

static __noinline int test_return(const struct moment *m)
{
	int wanted = 1;

	asm volatile("" : "+r"(wanted) : "r"(m) : "memory");
	return wanted;
}

static __always_inline bool has_target(const struct target *t)
{
	return bpf_map_lookup_elem(&targets, t) != NULL;
}

/* targeted reports whether the function's events are wanted of this process. */
static __always_inline bool targeted(__u64 cookie, struct task_struct *task)
{
	if (!(cookie & ONLY_TARGETS))
		return true;
	struct target t = {};
	if (options & ONLY_PIDS) {
		t.kind = TARGET_PID;
		t.id[0] = bpf_get_current_pid_tgid() >> 32;
		if (has_target(&t))
			return true;
	}
	if (options & ONLY_COMMS) {
		t.kind = TARGET_COMM;
		t.id[0] = t.id[1] = 0;
		BPF_CORE_READ_STR_INTO((char (*)[TASK_COMM_LEN])&t.id, task, group_leader, comm);
		if (has_target(&t))
			return true;
	}
	if (options & ONLY_EXES) {
		t.kind = TARGET_EXE;
		t.id[0] = BPF_CORE_READ(task, mm, exe_file, f_inode, i_sb, s_dev);
		t.id[1] = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino);
		if (has_target(&t))
			return true;
	}
	return false;
}

static __always_inline void read_args(__u64 *args, const struct pt_regs *ctx, __u64 cookie)
{
	if (cookie & GO_REGISTERS) {
		args[0] = ctx->ax;
		args[1] = ctx->bx;
		args[2] = ctx->cx;
		args[3] = ctx->di;
		args[4] = ctx->si;
		args[5] = ctx->r8;
		/* Else clang merges both branches' loads into loads from a computed
		 * address in ctx, which the verifier refuses. */
		asm volatile("" ::: "memory");
		return;
	}
	args[0] = ctx->di;
	args[1] = ctx->si;
	args[2] = ctx->dx;
	args[3] = ctx->cx;
	args[4] = ctx->r8;
	args[5] = ctx->r9;
}

static __always_inline void read_names(struct moment *m, struct task_struct *task)
{
	bpf_probe_read_kernel_str(m->process, TASK_COMM_LEN, BPF_CORE_READ(task, group_leader) ? task->group_leader->comm : task->comm);
	bpf_get_current_comm(m->thread, TASK_COMM_LEN);
}

/* look notes what is known of a call at its entry; m is zero. */
static __always_inline void look(struct moment *m, const struct pt_regs *ctx, __u64 cookie, struct task_struct *task)
{
	__u64 id = bpf_get_current_pid_tgid();

	m->cookie = cookie;
	m->time = m->start = bpf_ktime_get_boot_ns();
	m->pid = id >> 32;
	m->tid = (__u32)id;
	if (options & USE_ARGS)
		read_args(m->args, ctx, cookie);
	if ((options & USE_NAMES) && !(options & LATE_NAMES))
		read_names(m, task);
}

static __always_inline void count_hit(__u64 cookie)
{
	__u32 id = ID(cookie);
	__u64 *n = bpf_map_lookup_elem(&hits, &id);

	if (n)
		COUNT(*n);
}

static __always_inline void fill(struct event *e, const struct moment *m)
{
	e->time = m->time;
	e->function = ID(m->cookie);
	e->pid = m->pid;
	e->tid = m->tid;
	e->query = query;
	e->depth = m->depth;
}

static __always_inline void fill_return(struct event_return *r, const struct moment *m)
{
	fill(&r->e, m);
	r->start = m->start;
	r->retval = m->retval;
}

static __always_inline void submit(void *e)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(e, waiting > wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#define RESERVE(type)                                                       \
	type *r = bpf_ringbuf_reserve(&events, sizeof(type), 0);            \
	if (!r)                                                             \
		goto lost

/* emit gives the event to the reader, or counts it where the ring is full. */
static __always_inline void emit(const struct moment *m)
{
	__u32 layout = options & (SEND_ARGS | SEND_NAMES);

	if (layout == (SEND_ARGS | SEND_NAMES)) {
		RESERVE(struct event_full);
		fill_return(&r->r, m);
		__builtin_memcpy(r->process, m->process, 2 * TASK_COMM_LEN);
		__builtin_memcpy(r->args, m->args, sizeof(r->args));
		submit(r);
	} else if (layout == SEND_ARGS) {
		RESERVE(struct event_args);
		fill_return(&r->r, m);
		__builtin_memcpy(r->args, m->args, sizeof(r->args));
		submit(r);
	} else if (layout == SEND_NAMES) {
		RESERVE(struct event_names);
		fill_return(&r->r, m);
		__builtin_memcpy(r->process, m->process, 2 * TASK_COMM_LEN);
		submit(r);
	} else if (options & AT_RETURN) {
		RESERVE(struct event_return);
		fill_return(r, m);
		submit(r);
	} else {
		RESERVE(struct event);
		fill(r, m);
		submit(r);
	}
	return;
lost:
	COUNT_CALL(lost);
}

struct bounds {
	__u64 lo, hi;
};

static long note_bounds(struct task_struct *task, struct vm_area_struct *vma, void *data)
{
	struct bounds *b = data;

	b->lo = vma->vm_start;
	b->hi = vma->vm_end;
	return 0;
}

enum { STACK_OWN, STACK_FOREIGN, STACK_UNKNOWN };

/*
 * What is surely stack below its anchor, whatever the mapping: exec maps 128
 * KiB below the main thread's start, and no C library's thread stack is
 * smaller than 16 KiB, control block and thread-local data included.
 */
#define SURE_MAIN (128 << 10)
#define SURE_THREAD (12 << 10)

/*
 * own_stack says whether sp lies in the stack that the kernel or the C library
 * gave to the thread. A return trap on any other (a coroutine's, a signal's)
 * kills the target when it switches stacks. A leader's stack is the mapping of
 * start_stack, another thread's the mapping that also holds its control block.
 * The mapping found is remembered: a thread's own stack stays where it is.
 *
 * The mapping cannot be looked up while somebody waits to change the address
 * space, which threads that start together do all the time; so a call near the
 * anchor needs no mapping.
 */
static __always_inline int own_stack(struct thread *t, struct task_struct *task, __u64 sp)
{
	if (t->stack_lo <= sp && sp < t->stack_hi)
		return STACK_OWN;

	bool leader = task->pid == task->tgid;
	__u64 anchor = leader ? task->mm->start_stack : task->thread.fsbase;
	if (sp < anchor && anchor - sp < (leader ? SURE_MAIN : SURE_THREAD))
		return STACK_OWN;
	struct bounds b = {};
	if (bpf_find_vma(task, anchor, note_bounds, &b, 0))
		return STACK_UNKNOWN;
	t->stack_lo = b.lo;
	t->stack_hi = b.hi;
	return t->stack_lo <= sp && sp < t->stack_hi ? STACK_OWN : STACK_FOREIGN;
}

/*
 * is_chained: the call's return address is already the trampoline, so it was
 * reached by a tail call from a call that is armed at this same sp.
 */
static __always_inline bool is_chained(struct task_struct *task, __u64 sp)
{
	__u64 trampoline = BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
	__u64 ret = 0;

	bpf_probe_read_user(&ret, sizeof(ret), (void *)sp);
	return ret && ret == trampoline;
}

/*
 * prune drops calls that did not return and never will: those below sp, and
 * those at sp unless this is a tail call (the kernel's own rule, see
 * arch_uretprobe_is_alive).
 */
static __always_inline void prune(struct thread *t, struct task_struct *task, __u64 sp)
{
	__u32 n = t->n;
	bool chained = n > 0 && n <= MAX_CALLS && t->calls[(n - 1) & MAX_CALLS_MASK].sp <= sp && is_chained(task, sp);

	for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
		__u64 at = t->calls[(n - 1) & MAX_CALLS_MASK].sp;
		if (at > sp || (at == sp && chained))
			break;
		n--;
	}
	t->n = n;
}

/* depth_of counts the live calls. */
static __always_inline __u32 depth_of(struct thread *t)
{
	__u32 n = t->n;

	for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
		struct call *c = &t->calls[(n - 1) & MAX_CALLS_MASK];
		if (c->function != DEAD)
			return c->m.depth + 1;
		n--;
	}
	return 0;
}

/*
 * take finds the call that returns to sp and removes it with all above it.
 * Others at the same sp stay: tail calls return one after the other.
 */
static __always_inline struct call *take(struct thread *t, __u32 function, __u64 sp)
{
	struct call *found = NULL;
	__u32 n = t->n;

	for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
		struct call *c = &t->calls[(n - 1) & MAX_CALLS_MASK];
		if (c->sp > sp)
			break;
		if (c->sp == sp && c->function == function) {
			c->function = DEAD;
			found = c;
			break;
		}
		n--;
	}
	n = t->n;
	for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
		struct call *c = &t->calls[(n - 1) & MAX_CALLS_MASK];
		if (c->sp >= sp && c->function != DEAD)
			break;
		n--;
	}
	t->n = n;
	return found;
}

/*
 * Where calls on the stack say something about calls that are not wanted, the
 * stack comes before the test: depth counts them all, and where returns cannot
 * be refused a stale call must not be taken for an unwanted one.
 */
#define STACK_FIRST (options & (USE_DEPTH | PAIR))

/*
 * enter handles an entry; true: its return is awaited. start, if any, gets the
 * time for the kernel to remember.
 */
static __always_inline bool enter(struct pt_regs *ctx, __u64 cookie, __u64 *start)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 sp = ctx->sp;
	bool armed = false, wanted = true;
	struct moment m = {};
	__u32 n;

	if (!targeted(cookie, task))
		return false;
	count_hit(cookie);
	look(&m, ctx, cookie, task);
	if (!STACK_FIRST && !test_entry(&m))
		return false;

	struct thread *t = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	int stack = STACK_UNKNOWN;
	if (t) {
		if (t->exec_id != task->self_exec_id) {
			t->exec_id = task->self_exec_id;
			t->n = t->stack_lo = t->stack_hi = 0;
		}
		stack = own_stack(t, task, sp);
		if (stack == STACK_OWN)
			prune(t, task, sp);
		if (options & USE_DEPTH)
			m.depth = depth_of(t);
	}
	if (STACK_FIRST) {
		wanted = test_entry(&m);
		if (!wanted && !(options & USE_DEPTH))
			return false;
	}
	if (!t) {
		if (wanted)
			COUNT_CALL(unstored);
		goto out;
	}
	if (stack == STACK_FOREIGN) {
		if (wanted)
			COUNT_CALL(foreign);
		goto out;
	}
	if (stack == STACK_UNKNOWN) {
		if (wanted)
			COUNT_CALL(unchecked);
		goto out;
	}
	n = t->n;
	struct uprobe_task *utask = task->utask;
	if (n >= MAX_CALLS || (utask && utask->depth >= MAX_CALLS)) {
		if (wanted)
			COUNT_CALL(nesting);
		goto out;
	}
	struct call *c = &t->calls[n & MAX_CALLS_MASK];
	c->sp = sp;
	c->function = ID(cookie);
	c->wanted = wanted;
	c->m = m;
	t->n = n + 1;
	if (wanted)
		COUNT_CALL(armed);
	if (start)
		*start = m.start;
	armed = true;
out:
	if (!(options & AT_RETURN) && wanted)
		emit(&m);
	return armed;
}

/*
 * leave handles a return. start is when the call began as far as the kernel
 * remembers it, 0 if it does not: a forked child inherits return traps.
 */
static __always_inline void leave(struct pt_regs *ctx, __u64 cookie, __u64 start)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (start && start < task->start_boottime) {
		if (targeted(cookie, task))
			COUNT_CALL(inherited);
		return;
	}
	struct thread *t = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!t)
		return;
	struct call *c = take(t, ID(cookie), ctx->sp - 8);
	if (!c || !c->wanted)
		return;
	COUNT_CALL(returned);
	if (!(options & AT_RETURN))
		return;
	struct moment *m = &c->m;
	m->time = bpf_ktime_get_boot_ns();
	m->duration = m->time - m->start;
	m->retval = ctx->ax;
	if ((options & USE_NAMES) && (options & LATE_NAMES))
		read_names(m, task);
	if (test_return(m))
		emit(m);
}

SEC("uprobe.multi/x")
int function_entry(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct moment m = {};

	if (!targeted(cookie, task))
		return 0;
	count_hit(cookie);
	look(&m, ctx, cookie, task);
	if (test_entry(&m))
		emit(&m);
	return 0;
}

SEC("uprobe.session/x")
int function_session(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 *start = bpf_session_cookie();

	if (bpf_session_is_return()) {
		leave(ctx, cookie, *start);
		return 0;
	}
	/* 1 tells the kernel to leave the return address alone. */
	return enter(ctx, cookie, start) ? 0 : 1;
}

SEC("uprobe.multi/x")
int pair_entry(struct pt_regs *ctx)
{
	enter(ctx, bpf_get_attach_cookie(ctx), NULL);
	return 0;
}

SEC("uretprobe.multi/x")
int pair_return(struct pt_regs *ctx)
{
	leave(ctx, bpf_get_attach_cookie(ctx), 0);
	return 0;
}
