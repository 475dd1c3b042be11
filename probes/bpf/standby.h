/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Probes that are attached before their query begins, since attaching takes the kernel
 * milliseconds. Until then they report nothing, but cost a trap each.
 */
#ifndef ENDOSCOPE_STANDBY_H
#define ENDOSCOPE_STANDBY_H

#include "budget.h"
#include "counters.h"

/*
 * Nonzero from when every probe is attached and the query has begun, until before the
 * first probe is detached. While 0, no call begins with STANDBY, and none begins or ends
 * with SEQUENCE. The lower half is the number of functions: in a sequence, calls of
 * functions with a higher id (of a library being attached) do not begin. The upper half
 * counts how often functions were added. Both halves change in one write.
 */
volatile __u64 open;

/*
 * Set when every probe is attached, cleared before the first is detached. Detaching takes
 * milliseconds, one probe after the other; with this flag the counts of all functions
 * cover the same period and can be compared. At the end of a slice it is DRAINS first.
 */
volatile __u64 armed;

#define ARMED 1  /* calls begin and end */
#define DRAINS 2 /* calls under way end, none begins */

/* stands_by reports whether an entry is to be ignored. It is the first check of every program, and counts what the hit costs. */
static __always_inline bool stands_by(__u64 cookie)
{
	if (charge(cookie) || !(armed & ARMED))
		return true;
	if (!(options & STANDBY) || open)
		return false;
	COUNT_CALL(shut);
	return true;
}

#endif
