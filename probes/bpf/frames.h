/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where the frames of programs are. Since Linux 6.13 a uprobe program's frames of 64 bytes
 * and more are in memory of the program and the CPU (bpf_enable_priv_stack in
 * kernel/bpf/verifier.c). When the program waits, or on a preemptible kernel is
 * interrupted, another thread that runs it on this CPU overwrites them: nothing prevents
 * that for uprobes, as it does for kprobes. A program with a tail call has its frames on
 * the thread's stack in the kernel, as before 6.13. The verifier looks for the call before
 * it removes code that is never executed.
 *
 * All frames of a program together may then have 512 bytes.
 */
#ifndef ENDOSCOPE_FRAMES_H
#define ENDOSCOPE_FRAMES_H

#include "query.h"

const volatile bool never = false;

/* OWN_FRAMES does nothing. It is in every uprobe program. */
#define OWN_FRAMES(ctx)                                                     \
	do {                                                                \
		if (never)                                                  \
			bpf_tail_call(ctx, NULL, 0);                        \
	} while (0)

#endif
