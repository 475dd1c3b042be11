/* SPDX-License-Identifier: GPL-2.0 */
/* Names of events of a sequence as bytes in memory: conditions compare them as text. */
#ifndef ENDOSCOPE_NAMES_H
#define ENDOSCOPE_NAMES_H

#include <linux/types.h>

#define NAME(a, b, c, d, e, f) \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40)
#define ENTER NAME('E', 'N', 'T', 'E', 'R', 0)
#define LEAVE NAME('L', 'E', 'A', 'V', 'E', 0)
#define UNWIND NAME('U', 'N', 'W', 'I', 'N', 'D')
#define GAP NAME('G', 'A', 'P', 0, 0, 0)
#define OVER NAME('O', 'V', 'E', 'R', 0, 0) /* suspension.h */

#endif
