/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How the loader configures the programs for a query: its options, what becomes of
 * events, and the facts about a function that a probe's cookie carries.
 */
#ifndef ENDOSCOPE_QUERY_H
#define ENDOSCOPE_QUERY_H

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
	GUARDED = 1 << 14,     /* not every process may be observed: target.h */
	STANDBY = 1 << 15,     /* attached before it is wanted: standby.h */
	SEND_RECEIVER = 1 << 16, /* events carry what tells the receiver's class */
	SEND_GOROUTINE = 1 << 17, /* events of a sequence carry the goroutine */
	SEND_COST = 1 << 18,     /* events carry what the thread used in between: cost.h */
	USE_SELF = 1 << 19,      /* calls count for the self time of others: self.h; with USE_DEPTH */
	SEND_SELF = 1 << 20,     /* events carry it */
	SEND_CALLER = 1 << 21,   /* events carry where the call returns to, */
	SEND_STACK = 1 << 22,    /* and the stack: caller.h */
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

#endif
