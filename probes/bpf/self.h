/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Self time: the time of a call less that of the calls that it made, of all
 * functions that the query monitors, wanted or not.
 *
 * A call that returns adds its time to what the call around it spent in others
 * (moment.inner). One that is abandoned has no time: what it had spent in others
 * is then added to the call around it, so that each instant of a call is in the
 * self time of exactly one call, the innermost one that returns.
 */
#ifndef ENDOSCOPE_SELF_H
#define ENDOSCOPE_SELF_H

#include "moment.h"

/* conclude sets how long a call took that ends now. */
static __always_inline void conclude(struct moment *m, __u64 now)
{
	m->time = now;
	m->duration = now - m->start;
	if (options & USE_SELF)
		m->self = m->duration - m->inner;
}

/* spend adds to what the call around, if there is one, spent in others. */
static __always_inline void spend(struct moment *around, __u64 ns)
{
	if ((options & USE_SELF) && around)
		around->inner += ns;
}

#endif
