/* SPDX-License-Identifier: GPL-2.0 */
/* The bounds of stacks, of threads and goroutines. */
#ifndef ENDOSCOPE_BOUNDS_H
#define ENDOSCOPE_BOUNDS_H

#include "kernel.h"

struct bounds {
	__u64 lo, hi;
};

/* The first fields of Go's struct g (runtime/runtime2.go). */
struct g {
	struct bounds stack;
	__u64 guard0, guard1;
};

/* The largest distance of the stack guard from the end of the stack. */
#define MAX_GUARD 8192

/*
 * is_g distinguishes a g from other memory whose first words happen to look like the
 * bounds of a stack: guard1 is ~0 on stacks of goroutines, and equals guard0 on those of
 * the runtime.
 */
static __always_inline bool is_g(const struct g *g)
{
	return g->guard1 == ~0ULL || (g->guard1 == g->guard0 && g->guard1 - g->stack.lo < MAX_GUARD);
}

/* on_signal_stack reports whether sp lies in the thread's alternate signal stack. */
static __always_inline bool on_signal_stack(struct task_struct *task, __u64 sp)
{
	return sp - task->sas_ss_sp <= task->sas_ss_size;
}

#endif
