/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a query's programs are told, what they know of a call, and the query's
 * condition: common to all ways to observe calls.
 */
#ifndef ENDOSCOPE_MOMENT_H
#define ENDOSCOPE_MOMENT_H

#include "bounds.h"
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#define TASK_COMM_LEN 16
#define ARGS 6
/* `this` is the first argument, or the second behind where the result goes. */
#define RECEIVERS 2
/* CPU time, bytes read and written. */
#define COSTS 3

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
	SEQUENCE = 1 << 11,    /* events at entries and at returns, in order: sequence.h */
	BEFORE_5_17 = 1 << 12, /* the kernel has neither bpf_find_vma nor bpf_loop */
	GATED = 1 << 13,       /* calls pass a gate, or do not: gate.h */
	GUARDED = 1 << 14,     /* not every process may be observed: visible.h */
	STANDBY = 1 << 15,     /* attached before it is wanted: standby.h */
	SEND_RECEIVER = 1 << 16, /* events carry what tells the receiver's class */
	SEND_GOROUTINE = 1 << 17, /* events of a sequence carry the goroutine */
	SEND_COST = 1 << 18,     /* events carry what the thread used in between: cost.h */
	USE_SELF = 1 << 19,      /* calls count for the self time of others: self.h; with USE_DEPTH */
	SEND_SELF = 1 << 20,     /* events carry it */
	SEND_CALLER = 1 << 21,   /* events carry where the call returns to, */
	SEND_STACK = 1 << 22,    /* and the stack: whence.h */
	ALLOCATES = 1 << 23,     /* events are of memory that calls allocate, */
	FREES = 1 << 24,         /* or release: memory.h; with USE_DEPTH and USE_ARGS */
	USE_VALUES = 1 << 25,    /* values are read at the entry: values.h, */
	USE_RESULT = 1 << 26,    /* and at the return; */
	USE_TEXTS = 1 << 27,     /* texts are among them, */
	KEEP_TEXTS = 1 << 28,    /* which are kept until the return, */
	SEND_TEXTS = 1 << 29,    /* or follow events */
	SEND_FRAME = 1 << 30,    /* events of a sequence carry the frame: hush.h */
};
const volatile __u32 options = 0;

/* What becomes of events: bits of `aggregate`, 0 for one row each (aggregate.h). */
enum {
	DENSE = 1 << 0,       /* groups have their states in an array, */
	HASHED = 1 << 1,      /* or in a hash table; else they have only buckets */
	BY_FUNCTION = 1 << 2, /* the function is part of the key */
	DERIVED = 1 << 3,     /* words are derived from events */
	UPDATED = 1 << 4,     /* the state is more than a count */
	UNTIMED = 1 << 5,     /* nobody reads the time of an entry */
	NO_HITS = 1 << 6,     /* the states say how often functions were entered */
	SKETCHED = 1 << 7,    /* groups have lists of buckets */
};
const volatile __u32 aggregate = 0;

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
#define NO_RETVAL (1ULL << 26)     /* an exit by a tail call: nothing is returned yet */
#define METHOD (1ULL << 27)        /* an argument may be an object that has a class */
/* Where a goroutine's g has its number, in words from MIN_GOID: bits 28 to 31. 0: not known. */
#define GOID(cookie) ((cookie) >> 28 & 15)
/* The arguments are where the map `arguments` says. Of no function that has a goroutine. */
#define PLACED (1ULL << 28)
#define MIN_GOID 16
/* Its calls are told of whoever is hushed: hush.h. Likewise. */
#define NEEDED (1ULL << 29)
/*
 * What to add to the stack pointer at a site to get the address of the return
 * address. It takes the upper 16 bits of the cookie, which has 16 less for facts,
 * where exits are probed and where callers are asked for.
 */
#define SP_OFFSET(cookie) ((cookie) >> 48 << 3)

/*
 * A query that others have a part in is divided when one comes or goes. Its calls
 * are counted apart by the division after which they began: the last so many are
 * told apart, by number & (GENERATIONS - 1).
 */
#define GENERATIONS 32

/* Monotonic counts. Calls in flight or unfinished: armed - returned. */
struct counters {
	__u64 armed[GENERATIONS];    /* calls whose return is awaited */
	__u64 returned[GENERATIONS]; /* those of them that returned */
	__u64 lost;         /* events that found the ring full */
	__u64 limited;      /* events above the query's rate */
	__u64 ungrouped;    /* not aggregated: no room for another group */
	__u64 foreign;      /* return not armed: sp is not in the thread's stack */
	__u64 unchecked;    /* return not armed: the stack could not be looked up */
	__u64 nesting;      /* return not armed: too many nested calls */
	__u64 unstored;     /* return not armed: no memory for the thread's calls */
	__u64 overflown;    /* return not awaited: too many calls are under way */
	__u64 missed;       /* entries and exits of a goroutine that could not be read */
	__u64 inherited;    /* returns of calls that began before the fork */
	__u64 offered;      /* calls at the query's gate, and */
	__u64 shut;         /* those that found it shut */
	__u64 unreadable;   /* calls of which something in memory could not be read; it is NULL, or 0 */
	__u64 cut;          /* calls of which a text was cut off */
	__u64 too_large;    /* calls with a number that has no room */
	__u64 unkept;       /* calls whose texts were not kept until the return */
	__u64 undefined;    /* calls of methods that have no number */
	__u64 carried;      /* calls of virtual threads, whose returns are another's */
};

enum {
	TARGET_PID = 1, TARGET_COMM = 2, TARGET_EXE = 3,
	/* Whose processes may be observed: visible.h. */
	TARGET_USER = 4, TARGET_OWNER = 5, TARGET_GROUP = 6, TARGET_ROOT = 7, TARGET_CGROUP = 8,
};

/* A process that is a target. id: pid; comm, padded with 0; or device and inode.
 * Or one that may be observed, by user, group or cgroup. */
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
	__u64 event;    /* of a sequence: its name, */
	__u64 goroutine; /* and whose it is; 0: the thread's */
	__u64 args[ARGS];
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
	__u64 ip;               /* of the entry's probe: says where the module is */
	__u64 table[RECEIVERS]; /* what the first arguments point to, 0 if it cannot be read */
	__u64 cost[COSTS];      /* what the thread had used at the entry; at the return, since */
	__u64 counted, cpu;     /* of cost: CPU time as the kernel had added it up, and where */
	__u64 self;             /* at the return: duration less inner */
	__u64 inner;            /* time in calls that it made: self.h */
	__u64 address, size;    /* of memory.h; of a sequence with SEND_FRAME where the return address lies */
	__u64 caller;           /* where the call returns to, of an event that is sent */
	__u64 absent;           /* of values: which are NULL, and what tests of texts came to */
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
 * Of a sequence, test_entry says whether any event of the call can be wanted,
 * and test_return whether this event is. The loader puts the query's condition here; the barriers keep the compiler
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

extern void *bpf_rdonly_cast(const void *, __u32) __ksym __weak;

/*
 * plain is task as the verifier regards any address. For each load of a pointer
 * through one that it trusts it goes up to four times through the names of all
 * the kernel's types (btf_nested_type_is_trusted, from Linux 6.3 on), which
 * takes longer than all else that it does. The cast itself is no instruction.
 */
static __always_inline struct task_struct *plain(struct task_struct *task)
{
	return bpf_rdonly_cast ? bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct)) : task;
}

/* The process that is the one target, which needs no look into `targets`; 0: there are others. */
const volatile __u32 only_pid = 0;

static __always_inline bool has_target(const struct target *t)
{
	return bpf_map_lookup_elem(&targets, t) != NULL;
}

#include "visible.h"

/* targeted reports whether the function's events are wanted of this process. */
static __always_inline bool targeted(__u64 cookie, struct task_struct *task)
{
	if (!visible(task))
		return false;
	if (!(cookie & ONLY_TARGETS))
		return true;
	if (only_pid)
		return bpf_get_current_pid_tgid() >> 32 == only_pid;
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

#include "operand.h"

static __always_inline void read_args(__u64 *args, const struct pt_regs *ctx, __u64 cookie)
{
	if (placed && (cookie & (GO_REGISTERS | PLACED)) == PLACED) {
		read_operands(args, ctx, ID(cookie));
		return;
	}
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

/*
 * may_be_object leaves out what is no address of an object with virtual functions:
 * numbers, mostly. To find out by reading takes a fault, which costs as much as the
 * probe.
 */
static __always_inline bool may_be_object(__u64 address)
{
	return address >= 0x10000 && address < 1ULL << 47 && !(address & 7);
}

/* read_receiver reads what would be the pointer to an object's virtual table. */
static __always_inline void read_receiver(struct moment *m, const struct pt_regs *ctx)
{
	m->ip = ctx->ip;
	for (int i = 0; i < RECEIVERS; i++)
		if (may_be_object(m->args[i]))
			bpf_probe_read_user(&m->table[i], sizeof(m->table[i]), (void *)m->args[i]);
}

static __always_inline void read_names(struct moment *m, struct task_struct *task)
{
	bpf_probe_read_kernel_str(m->process, TASK_COMM_LEN, BPF_CORE_READ(task, group_leader) ? plain(task)->group_leader->comm : task->comm);
	bpf_get_current_comm(m->thread, TASK_COMM_LEN);
}

#include "cost.h"
#include "self.h"
#include "whence.h"
#include "memory.h"
#include "values.h"

/* look notes what is known of a call at its entry; m is zero. */
static __always_inline void look(struct moment *m, const struct pt_regs *ctx, __u64 cookie, struct task_struct *task)
{
	__u64 id = bpf_get_current_pid_tgid();

	m->cookie = cookie;
	if (!(aggregate & UNTIMED))
		m->time = m->start = bpf_ktime_get_boot_ns();
	m->pid = id >> 32;
	m->tid = (__u32)id;
	if (options & USE_ARGS)
		read_args(m->args, ctx, cookie);
	note_size(m);
	if (options & SEND_STACK)
		m->ip = ctx->ip;
	if ((options & SEND_RECEIVER) && (cookie & METHOD))
		read_receiver(m, ctx);
	read_values(m, ctx, task);
	note_cost(m, task);
	if ((options & USE_NAMES) && !(options & LATE_NAMES))
		read_names(m, task);
}

static __always_inline void count_hit(__u64 cookie)
{
	if (aggregate & NO_HITS)
		return;
	__u32 id = ID(cookie);
	__u64 *n = bpf_map_lookup_elem(&hits, &id);

	if (n)
		COUNT(*n);
}

#endif
