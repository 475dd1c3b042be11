/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The division of a shared acquisition after which a call began (struct counters).
 */
#ifndef ENDOSCOPE_GENERATION_H
#define ENDOSCOPE_GENERATION_H

#include "counters.h"

/*
 * The number of divisions so far, and the times of the last ones, by the events' clock.
 * User space writes the time, which lies in the future, and then the number.
 */
volatile __u64 generation = 0;
volatile __u64 divisions[GENERATIONS] = {};

#define GENERATION_MASK (GENERATIONS - 1)

/* The index of a call that began before the last division. Calls older than all known divisions count for the oldest. */
static __noinline __u32 earlier_generation(__u64 start, __u64 g)
{
	for (__u32 i = 1; i < GENERATIONS && i < g; i++) {
		if (start >= divisions[(g - i) & GENERATION_MASK])
			return (g - i) & GENERATION_MASK;
	}
	return g < GENERATIONS ? 0 : (g + 1) & GENERATION_MASK;
}

/* generation_of returns the index of a call in counters.armed and counters.returned. */
static __always_inline __u32 generation_of(__u64 start)
{
	__u64 g = generation;

	if (!g || start >= divisions[g & GENERATION_MASK])
		return g & GENERATION_MASK;
	return earlier_generation(start, g) & GENERATION_MASK;
}

#define COUNT_ARMED(m) COUNT_CALL(armed[generation_of((m)->start)])
#define COUNT_RETURNED(m) COUNT_CALL(returned[generation_of((m)->start)])

#endif
