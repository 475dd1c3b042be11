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

/* Reads memory that others change, once. */
#define ONCE(x) (*(volatile __typeof__(x) *)&(x))

#define ARGS 6
/* `this` is the first argument, or the second after a hidden result pointer. */
#define RECEIVERS 2
/* CPU time, bytes read and written. */
#define COSTS 3

/* What the query wants: bits of `options`. */
enum {
	AT_RETURN = 1 << 0,    /* events are sent at returns, else at entries */
	USE_ARGS = 1 << 1,     /* the integer argument registers are read */
	USE_NAMES = 1 << 2,    /* the names of process and thread are read, */
	LATE_NAMES = 1 << 3,   /* at the return */
	USE_DEPTH = 1 << 4,    /* all calls, selected or not, count for the depth of others */
	SEND_ARGS = 1 << 5,    /* events carry the arguments */
	SEND_NAMES = 1 << 6,   /* events carry the names */
	PAIR = 1 << 7,         /* every return runs the program, whatever the entry returned */
	ONLY_PIDS = 1 << 8,    /* targets are the processes in `targets`: by pid, */
	ONLY_COMMS = 1 << 9,   /* by the leader's comm, */
	ONLY_EXES = 1 << 10,   /* or by executable; any of the bits that are set */
	SEQUENCE = 1 << 11,    /* events at entries and at returns, in order: sequence.h */
	BEFORE_5_17 = 1 << 12, /* the kernel has neither bpf_find_vma nor bpf_loop */
	GATED = 1 << 13,       /* calls are subject to a gate: gate.h */
	GUARDED = 1 << 14,     /* the user may not observe every process: target.h */
	STANDBY = 1 << 15,     /* attached before the query begins: standby.h */
	SEND_RECEIVER = 1 << 16, /* events carry what identifies the receiver's class */
	SEND_GOROUTINE = 1 << 17, /* events of a sequence carry the goroutine */
	SEND_COST = 1 << 18,     /* events carry the resources used by the call: cost.h */
	USE_SELF = 1 << 19,      /* calls count for the self time of others: self.h; with USE_DEPTH */
	SEND_SELF = 1 << 20,     /* events carry the self time */
	SEND_CALLER = 1 << 21,   /* events carry the caller's address: caller.h */
	SEND_STACK = 1 << 22,    /* events carry the stack: caller.h */
	ALLOCATES = 1 << 23,     /* events are allocations: memory.h; with USE_DEPTH and USE_ARGS */
	FREES = 1 << 24,         /* events are releases of memory: likewise */
	USE_VALUES = 1 << 25,    /* values are read at the entry: values.h */
	USE_RESULT = 1 << 26,    /* values are read at the return */
	USE_TEXTS = 1 << 27,     /* texts are among the values */
	KEEP_TEXTS = 1 << 28,    /* texts are kept until the return */
	SEND_TEXTS = 1 << 29,    /* texts follow events */
	SEND_FRAME = 1 << 30,    /* events of a sequence carry the frame: suspension.h */
};
const volatile __u32 options = 0;

/* What becomes of events: bits of `aggregate`, 0 for one row each (aggregate.h). */
enum {
	DENSE = 1 << 0,       /* the states of groups are in an array */
	HASHED = 1 << 1,      /* the states of groups are in a hash table; with neither there are only buckets */
	BY_FUNCTION = 1 << 2, /* the function is part of the key */
	DERIVED = 1 << 3,     /* words are derived from events */
	UPDATED = 1 << 4,     /* the state is more than a count */
	UNTIMED = 1 << 5,     /* the time of an entry is not used */
	NO_HITS = 1 << 6,     /* the states already count entries of functions */
	SKETCHED = 1 << 7,    /* groups have lists of buckets */
};
const volatile __u32 aggregate = 0;

/* Whether events of the query are recorded rather than sent; whether its rows recall those
 * of another: recall.h. */
const volatile bool records = false;
const volatile bool recalls = false;

/* The id of the query, sent with each event. */
const volatile __u16 query = 0;

/*
 * A probe's cookie describes its function: the id in bits 0 to 23, these flags in the
 * rest of the lower half, and in the upper half the results of the query's tests of the
 * function's names.
 */
#define ID(cookie) ((__u32)(cookie) & 0xffffff)
#define GO_REGISTERS (1ULL << 24)  /* arguments are where Go's ABIInternal puts them */
#define ONLY_TARGETS (1ULL << 25)  /* check whether the process is a target */
#define NO_RETVAL (1ULL << 26)     /* an exit by a tail call: nothing is returned yet */
/* At entries, with a budget: which of two links of a function has the probe: budget.h. */
#define GENERATION (1ULL << 26)
#define METHOD (1ULL << 27)        /* an argument may be an object that has a class */
/* Offset of goid in struct g, in words from MIN_GOID: bits 28 to 31. 0: not known. */
#define GOID(cookie) ((cookie) >> 28 & 15)
/* The map `arguments` says where the arguments are. Never set for functions of Go. */
#define PLACED (1ULL << 28)
#define MIN_GOID 16
/* Its calls are reported even while the sequence is suspended: suspension.h. Never set for functions of Go. */
#define NEEDED (1ULL << 29)
/*
 * The distance from the stack pointer at a site to the address of the return address,
 * in the upper 16 bits of the cookie. Present where exits are probed and where the query
 * reads callers; the cookie then has 16 bits less for test results.
 */
#define SP_OFFSET(cookie) ((cookie) >> 48 << 3)

extern void *bpf_rdonly_cast(const void *, __u32) __ksym __weak;

/*
 * plain returns task as an untrusted pointer. For each pointer loaded through a trusted
 * one the verifier searches the names of all kernel types up to four times
 * (btf_nested_type_is_trusted, since Linux 6.3), which dominates its run time. The cast
 * compiles to no instruction.
 */
static __always_inline struct task_struct *plain(struct task_struct *task)
{
	return bpf_rdonly_cast ? bpf_rdonly_cast(task, bpf_core_type_id_kernel(struct task_struct)) : task;
}

#endif
