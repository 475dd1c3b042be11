//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Function entries and returns.
 *
 * Every probed function has an id, which is the cookie of its probe, and an
 * entry in `functions` that says what is wanted of it. Three ways to attach:
 *
 *   entry               entries only
 *   session             entry and return in one program (Linux 6.13)
 *   pair_entry/_return  the same with two links, for kernels before it
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

/* What is wanted of a function: config.flags. 0 switches it off. */
enum {
	WANT_ENTRY = 1 << 0,   /* an event at the entry */
	WANT_RETURN = 1 << 1,  /* an event at the return */
	WANT_ARGS = 1 << 2,    /* with the integer argument registers */
	WANT_NAMES = 1 << 3,   /* with the names of process and thread */
	GO_REGISTERS = 1 << 4, /* arguments are where Go's ABI0-internal puts them */
	ONLY_PIDS = 1 << 5,    /* only processes in `targets` of this scope, by pid, */
	ONLY_COMMS = 1 << 6,   /* by the leader's comm, */
	ONLY_EXES = 1 << 7,    /* or by executable: any of those that are set */
};
#define ONLY (ONLY_PIDS | ONLY_COMMS | ONLY_EXES)

struct config {
	__u32 flags;
	__u32 scope; /* in `targets` */
	__u32 site;  /* equal for functions of equal address, whoever probes them */
	__u32 group; /* calls of one group count for each other's depth; 0: none */
};

/* Monotonic counts per function. Calls in flight or unfinished: armed - returned. */
struct counters {
	__u64 hits;         /* entries of target processes while switched on */
	__u64 armed;        /* calls whose return is awaited */
	__u64 returned;     /* those of them that returned */
	__u64 lost_entry;   /* events that found the ring full */
	__u64 lost_return;
	__u64 foreign;      /* return not armed: sp is not in the thread's stack */
	__u64 unchecked;    /* return not armed: the stack could not be looked up */
	__u64 nesting;      /* return not armed: too many nested calls */
	__u64 unstored;     /* return not armed: no memory for the thread's calls */
	__u64 inherited;    /* returns of calls that began before the fork */
};

enum { TARGET_PID = 1, TARGET_COMM = 2, TARGET_EXE = 3 };

/* A member of a scope. id: pid; comm, padded with 0; or device and inode. */
struct target {
	__u32 scope;
	__u32 kind;
	__u64 id[2];
};

/*
 * Events. The ring buffer wants sizes known to the verifier, so there are five:
 * the first two are chosen by kind, the others by WANT_ARGS and WANT_NAMES.
 */
enum { EVENT_ENTRY = 0, EVENT_RETURN = 1 };

struct event {
	__u64 time; /* CLOCK_BOOTTIME */
	__u32 function;
	__u32 pid, tid;
	__u8 kind;
	__u8 flags; /* WANT_ARGS, WANT_NAMES: which of the layouts */
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
const struct event *type_event __attribute__((unused));
const struct event_return *type_event_return __attribute__((unused));
const struct event_names *type_event_names __attribute__((unused));
const struct event_args *type_event_args __attribute__((unused));
const struct event_full *type_event_full __attribute__((unused));

/* A call whose return is awaited. */
struct call {
	__u64 sp;
	__u64 start;
	__u32 function; /* DEAD: returned before a call above it did */
	__u32 site;
	__u32 group;
	__u32 depth;
	__u64 args[ARGS];
};
#define DEAD 0xffffffff

struct thread {
	__u64 exec_id; /* exec keeps the thread but not its memory */
	__u64 stack_lo, stack_hi;
	__u32 n;
	__u32 pad;
	struct call calls[MAX_CALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct config);
} functions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct counters);
} counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
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

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24); /* set by the loader */
} events SEC(".maps");

/*
 * The reader looks at the ring every few milliseconds on its own; it is woken
 * only when more than this is waiting, for a wake-up costs as much as the probe.
 */
const volatile __u64 wake_bytes = 1 << 22;

/* All events that found the ring full; says when to look at the functions' own. */
__u64 lost_total = 0;

extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern bool bpf_session_is_return(void) __ksym __weak;

/* Programs of one CPU can interrupt each other where the kernel is preemptible. */
#define COUNT(field) __sync_fetch_and_add(&(field), 1)

#define LOST(field) do { COUNT(field); COUNT(lost_total); } while (0)

static __always_inline struct config *config_of(__u32 id)
{
	return bpf_map_lookup_elem(&functions, &id);
}

static __always_inline struct counters *counters_of(__u32 id)
{
	return bpf_map_lookup_elem(&counts, &id);
}

static __always_inline bool has_target(const struct target *t)
{
	return bpf_map_lookup_elem(&targets, t) != NULL;
}

/* targeted reports whether the function's events are wanted of this process. */
static __always_inline bool targeted(const struct config *cfg, struct task_struct *task)
{
	if (!(cfg->flags & ONLY))
		return true;
	struct target t = { .scope = cfg->scope };
	if (cfg->flags & ONLY_PIDS) {
		t.kind = TARGET_PID;
		t.id[0] = bpf_get_current_pid_tgid() >> 32;
		if (has_target(&t))
			return true;
	}
	if (cfg->flags & ONLY_COMMS) {
		t.kind = TARGET_COMM;
		t.id[0] = t.id[1] = 0;
		BPF_CORE_READ_STR_INTO((char (*)[TASK_COMM_LEN])&t.id, task, group_leader, comm);
		if (has_target(&t))
			return true;
	}
	if (cfg->flags & ONLY_EXES) {
		t.kind = TARGET_EXE;
		t.id[0] = BPF_CORE_READ(task, mm, exe_file, f_inode, i_sb, s_dev);
		t.id[1] = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino);
		if (has_target(&t))
			return true;
	}
	return false;
}

static __always_inline void read_args(__u64 *args, const struct pt_regs *ctx, __u32 flags)
{
	if (flags & GO_REGISTERS) {
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

static __always_inline void read_names(char *process, char *thread, struct task_struct *task)
{
	bpf_probe_read_kernel_str(process, TASK_COMM_LEN, BPF_CORE_READ(task, group_leader) ? task->group_leader->comm : task->comm);
	bpf_get_current_comm(thread, TASK_COMM_LEN);
}

struct moment {
	struct task_struct *task;
	__u64 time, start, retval;
	const __u64 *args;
	__u32 function, flags, depth;
	__u8 kind;
};

static __always_inline void fill(struct event *e, const struct moment *m, __u8 flags)
{
	__u64 id = bpf_get_current_pid_tgid();

	e->time = m->time;
	e->function = m->function;
	e->pid = id >> 32;
	e->tid = id;
	e->kind = m->kind;
	e->flags = flags;
	e->depth = m->depth;
}

static __always_inline void fill_return(struct event_return *r, const struct moment *m, __u8 flags)
{
	fill(&r->e, m, flags);
	r->start = m->start;
	r->retval = m->retval;
}

static __always_inline void copy_args(__u64 *to, const __u64 *from)
{
	for (int i = 0; i < ARGS; i++)
		to[i] = from[i];
}

static __always_inline void submit(void *e)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	bpf_ringbuf_submit(e, waiting > wake_bytes ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

#define RESERVE(type)                                                       \
	type *r = bpf_ringbuf_reserve(&events, sizeof(type), 0);            \
	if (!r)                                                             \
		return false

/* emit gives the event to the reader; false: the ring is full. */
static __always_inline bool emit(const struct moment *m)
{
	__u8 layout = m->flags & (WANT_ARGS | WANT_NAMES);

	if (layout == (WANT_ARGS | WANT_NAMES)) {
		RESERVE(struct event_full);
		fill_return(&r->r, m, layout);
		read_names(r->process, r->thread, m->task);
		copy_args(r->args, m->args);
		submit(r);
	} else if (layout == WANT_ARGS) {
		RESERVE(struct event_args);
		fill_return(&r->r, m, layout);
		copy_args(r->args, m->args);
		submit(r);
	} else if (layout == WANT_NAMES) {
		RESERVE(struct event_names);
		fill_return(&r->r, m, layout);
		read_names(r->process, r->thread, m->task);
		submit(r);
	} else if (m->kind == EVENT_RETURN) {
		RESERVE(struct event_return);
		fill_return(r, m, 0);
		submit(r);
	} else {
		RESERVE(struct event);
		fill(r, m, 0);
		submit(r);
	}
	return true;
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
 * arch_uretprobe_is_alive). One hit runs every link on the site, so a call at
 * sp of the same site but of another function id is this very call.
 */
static __always_inline void prune(struct thread *t, struct task_struct *task, __u64 sp, __u32 function, __u32 site)
{
	__u32 n = t->n, keep;

	for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
		if (t->calls[(n - 1) & MAX_CALLS_MASK].sp >= sp)
			break;
		n--;
	}
	keep = n;
	if (n > 0 && t->calls[(n - 1) & MAX_CALLS_MASK].sp == sp && !is_chained(task, sp)) {
		for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
			struct call *c = &t->calls[(n - 1) & MAX_CALLS_MASK];
			if (c->sp != sp)
				break;
			n--;
			if (c->function == function || c->site != site)
				keep = n;
		}
	}
	t->n = keep;
}

/* depth_in counts the live calls of the group. */
static __always_inline __u32 depth_in(struct thread *t, __u32 group)
{
	__u32 n = t->n;

	if (!group)
		return 0;
	for (int i = 0; i < MAX_CALLS && n > 0 && n <= MAX_CALLS; i++) {
		struct call *c = &t->calls[(n - 1) & MAX_CALLS_MASK];
		if (c->group == group && c->function != DEAD)
			return c->depth + 1;
		n--;
	}
	return 0;
}

/*
 * take finds the call that returns to sp and removes it with all above it.
 * Others at the same sp stay: tail calls return one after the other, and
 * several links return on their own.
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

/* enter handles an entry; true: its return is awaited. */
static __always_inline bool enter(struct pt_regs *ctx, __u32 id, struct config *cfg)
{
	__u32 flags = cfg->flags, n;
	bool armed = false;
	__u64 sp = ctx->sp;
	__u64 args[ARGS] = {};

	if (!flags)
		return false;
	struct task_struct *task = bpf_get_current_task_btf();
	struct counters *cnt = counters_of(id);
	if (!cnt || !targeted(cfg, task))
		return false;
	COUNT(cnt->hits);

	struct moment m = {
		.task = task, .time = bpf_ktime_get_boot_ns(), .args = args,
		.function = id, .flags = flags, .kind = EVENT_ENTRY,
	};
	if (flags & WANT_ARGS)
		read_args(args, ctx, flags);

	struct thread *t = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		COUNT(cnt->unstored);
		goto out;
	}
	if (t->exec_id != task->self_exec_id) {
		t->exec_id = task->self_exec_id;
		t->n = t->stack_lo = t->stack_hi = 0;
	}
	int stack = own_stack(t, task, sp);
	if (stack == STACK_OWN)
		prune(t, task, sp, id, cfg->site);
	m.depth = depth_in(t, cfg->group);
	if (stack == STACK_FOREIGN) {
		COUNT(cnt->foreign);
		goto out;
	}
	if (stack == STACK_UNKNOWN) {
		COUNT(cnt->unchecked);
		goto out;
	}
	n = t->n;
	struct uprobe_task *utask = task->utask;
	if (n >= MAX_CALLS || (utask && utask->depth >= MAX_CALLS)) {
		COUNT(cnt->nesting);
		goto out;
	}
	struct call *c = &t->calls[n & MAX_CALLS_MASK];
	c->sp = sp;
	c->start = m.time;
	c->function = id;
	c->site = cfg->site;
	c->group = cfg->group;
	c->depth = m.depth;
	copy_args(c->args, args);
	t->n = n + 1;
	COUNT(cnt->armed);
	armed = true;
out:
	if ((flags & WANT_ENTRY) && !emit(&m))
		LOST(cnt->lost_entry);
	return armed;
}

/*
 * leave handles a return. start is when the call began as far as the kernel
 * remembers it, 0 if it does not: a forked child inherits return traps.
 */
static __always_inline void leave(struct pt_regs *ctx, __u32 id, struct config *cfg, __u64 start)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct counters *cnt = counters_of(id);

	if (!cnt)
		return;
	if (start && start < task->start_boottime) {
		if (targeted(cfg, task))
			COUNT(cnt->inherited);
		return;
	}
	struct thread *t = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!t)
		return;
	struct call *c = take(t, id, ctx->sp - 8);
	if (!c)
		return;
	COUNT(cnt->returned);
	if (!(cfg->flags & WANT_RETURN))
		return;
	struct moment m = {
		.task = task, .time = bpf_ktime_get_boot_ns(), .start = c->start, .retval = ctx->ax,
		.args = c->args, .function = id, .flags = cfg->flags, .depth = c->depth, .kind = EVENT_RETURN,
	};
	if (!emit(&m))
		LOST(cnt->lost_return);
}

SEC("uprobe.multi/x")
int function_entry(struct pt_regs *ctx)
{
	__u32 id = bpf_get_attach_cookie(ctx);
	struct config *cfg = config_of(id);
	__u64 args[ARGS] = {};

	if (!cfg || !cfg->flags)
		return 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct counters *cnt = counters_of(id);
	if (!cnt || !targeted(cfg, task))
		return 0;
	COUNT(cnt->hits);
	struct moment m = {
		.task = task, .time = bpf_ktime_get_boot_ns(), .args = args,
		.function = id, .flags = cfg->flags, .kind = EVENT_ENTRY,
	};
	if (m.flags & WANT_ARGS)
		read_args(args, ctx, m.flags);
	if (!emit(&m))
		LOST(cnt->lost_entry);
	return 0;
}

SEC("uprobe.session/x")
int function_session(struct pt_regs *ctx)
{
	__u32 id = bpf_get_attach_cookie(ctx);
	struct config *cfg = config_of(id);
	__u64 *start = bpf_session_cookie();

	if (!cfg)
		return 1;
	if (bpf_session_is_return()) {
		leave(ctx, id, cfg, *start);
		return 0;
	}
	*start = bpf_ktime_get_boot_ns();
	/* 1 tells the kernel to leave the return address alone. */
	return enter(ctx, id, cfg) ? 0 : 1;
}

SEC("uprobe.multi/x")
int pair_entry(struct pt_regs *ctx)
{
	__u32 id = bpf_get_attach_cookie(ctx);
	struct config *cfg = config_of(id);

	if (cfg)
		enter(ctx, id, cfg);
	return 0;
}

SEC("uretprobe.multi/x")
int pair_return(struct pt_regs *ctx)
{
	__u32 id = bpf_get_attach_cookie(ctx);
	struct config *cfg = config_of(id);

	if (cfg)
		leave(ctx, id, cfg, 0);
	return 0;
}
