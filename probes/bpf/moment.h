/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is known of a call at its entry and at its return, and the query's condition
 * on it.
 */
#ifndef ENDOSCOPE_MOMENT_H
#define ENDOSCOPE_MOMENT_H

#include "query.h"

/*
 * What is known of a call at its entry, and later at its return: the input of the
 * query's tests. Package codegen has the offsets (layout).
 */
struct moment {
	__u64 cookie;
	__u64 time;     /* CLOCK_BOOTTIME, of the event */
	__u64 start;    /* of the entry */
	__u64 duration; /* at the return */
	__u64 retval;   /* at the return */
	__u64 pid, tid;
	__u64 depth;
	__u64 event;    /* of a sequence: the event's name */
	__u64 goroutine; /* of a sequence: its goroutine; 0: the sequence is the thread's */
	__u64 args[ARGS];
	char process[TASK_COMM_LEN], thread[TASK_COMM_LEN];
	__u64 ip;               /* of the entry's probe: locates the module */
	__u64 table[RECEIVERS]; /* what the first arguments point to; 0: unreadable */
	__u64 cost[COSTS];      /* resources used by the thread: in total at the entry, by the call at the return */
	__u64 counted, cpu;     /* of cost: CPU time accounted by the kernel, and the CPU */
	__u64 self;             /* at the return: duration less inner */
	__u64 inner;            /* time in calls that it made: self.h */
	__u64 address, size;    /* of memory.h; with SEND_FRAME: where the return address lies */
	__u64 caller;           /* return address of the call, in events that are sent */
	__u64 absent;           /* of values: which are NULL, and the results of tests of texts */
	__u64 owner, below;     /* the call's frame, for its context: struct frame */
};

/* The moment that a program is building, which is too large for most frames: frames.h. It
 * belongs to the thread, so that no other program of the CPU can overwrite it. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct moment);
} moments SEC(".maps");

/* new_moment returns a zeroed moment; NULL: out of memory. */
static __always_inline struct moment *new_moment(struct task_struct *task)
{
	struct moment *m = bpf_task_storage_get(&moments, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	/* What precedes the arguments is all that is known of most recorded events. */
	if (m && records && !(options & USE_NAMES))
		__builtin_memset(m, 0, __builtin_offsetof(struct moment, args));
	else if (m)
		__builtin_memset(m, 0, sizeof(*m));
	return m;
}

/*
 * The query's condition: test_entry as far as it is decided at the entry, test_return in
 * full. In a sequence test_entry says whether any event of the call can be selected, and
 * test_return whether this event is. The loader replaces the bodies. The barriers keep
 * the compiler from assuming what is read and what is returned.
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
