/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Self time: the duration of a call less that of the calls it made to functions that the
 * query monitors, selected or not.
 *
 * A call that returns adds its duration to moment.inner of the enclosing call. An
 * abandoned call has no duration: its own inner is added to the enclosing call instead.
 * So each instant is in the self time of exactly one call, the innermost that returns.
 */
#ifndef ENDOSCOPE_SELF_H
#define ENDOSCOPE_SELF_H

#include "moment.h"

/* conclude sets the end, duration and self time of a call that ends now. */
static __always_inline void conclude(struct moment *m, __u64 now)
{
	m->time = now;
	m->duration = now - m->start;
	if (options & USE_SELF)
		m->self = m->duration - m->inner;
}

/* spend adds ns to the time that the enclosing call, if any, spent in other calls. */
static __always_inline void spend(struct moment *around, __u64 ns)
{
	if ((options & USE_SELF) && around)
		around->inner += ns;
}

#endif
