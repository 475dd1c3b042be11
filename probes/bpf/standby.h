/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Probes that are attached before they are wanted, which takes the kernel
 * milliseconds: until then they are as if they were not, but for their price.
 */
#ifndef ENDOSCOPE_STANDBY_H
#define ENDOSCOPE_STANDBY_H

#include "moment.h"

/*
 * Set when every probe is attached and events are wanted, cleared before the
 * first is detached. With SEQUENCE, nothing begins or ends without; with STANDBY,
 * nothing begins.
 */
volatile __u32 open;

/* stands_by reports whether an entry is to be overlooked. It is asked before anything else. */
static __always_inline bool stands_by(void)
{
	if (!(options & STANDBY) || open)
		return false;
	COUNT_CALL(shut);
	return true;
}

#endif
