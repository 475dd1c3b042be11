/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Probes that are attached before they are wanted, which takes the kernel
 * milliseconds: until then they are as if they were not, but for their price.
 */
#ifndef ENDOSCOPE_STANDBY_H
#define ENDOSCOPE_STANDBY_H

#include "counters.h"

/*
 * Set when every probe is attached and events are wanted, cleared before the
 * first is detached. With SEQUENCE, nothing begins or ends without; with STANDBY,
 * nothing begins. The lower half is how many functions there are, by number: of a
 * sequence others do not begin, those of a library that is being attached; the
 * upper half is how often such were added. Both change at once.
 */
volatile __u64 open;

/*
 * Set when every probe is attached, cleared before the first is detached, which
 * happens to one after the other and takes milliseconds: so the calls of all
 * functions are those of one time, and their numbers can be compared.
 */
volatile __u64 armed;

/* stands_by reports whether an entry is to be overlooked. It is asked before anything else. */
static __always_inline bool stands_by(void)
{
	if (!armed)
		return true;
	if (!(options & STANDBY) || open)
		return false;
	COUNT_CALL(shut);
	return true;
}

#endif
