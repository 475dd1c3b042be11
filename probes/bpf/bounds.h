/* SPDX-License-Identifier: GPL-2.0 */
/* Where stacks lie, of threads and of goroutines. */
#ifndef ENDOSCOPE_BOUNDS_H
#define ENDOSCOPE_BOUNDS_H

#include "kernel.h"

struct bounds {
	__u64 lo, hi;
};

/* What Go's struct g begins with (runtime/runtime2.go). */
struct g {
	struct bounds stack;
	__u64 guard0, guard1;
};

/* How far above the end of its stack a g has its guard, at most. */
#define MAX_GUARD 8192

/*
 * is_g tells a g from other memory, of which two words may well look like the
 * bounds of a stack: guard1 is no address where goroutines run, and where the
 * runtime does it is the same as guard0.
 */
static __always_inline bool is_g(const struct g *g)
{
	return g->guard1 == ~0ULL || (g->guard1 == g->guard0 && g->guard1 - g->stack.lo < MAX_GUARD);
}

#endif
