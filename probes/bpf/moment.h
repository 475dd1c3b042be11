/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is known of a call at its entry and at its return, and the query's condition
 * on it.
 */
#ifndef ENDOSCOPE_MOMENT_H
#define ENDOSCOPE_MOMENT_H

#include "query.h"

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

static __always_inline void read_names(struct moment *m, struct task_struct *task)
{
	bpf_probe_read_kernel_str(m->process, TASK_COMM_LEN, BPF_CORE_READ(task, group_leader) ? plain(task)->group_leader->comm : task->comm);
	bpf_get_current_comm(m->thread, TASK_COMM_LEN);
}

#endif
