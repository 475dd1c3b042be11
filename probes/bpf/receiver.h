/* SPDX-License-Identifier: GPL-2.0 */
/* The object whose method is called. */
#ifndef ENDOSCOPE_RECEIVER_H
#define ENDOSCOPE_RECEIVER_H

#include "moment.h"
#include "wait.h"

/*
 * may_be_object rejects values that cannot be the address of an object with virtual
 * functions, mostly small numbers. Reading them instead would fault, which costs as much
 * as the probe.
 */
static __always_inline bool may_be_object(__u64 address)
{
	return address >= 0x10000 && address < 1ULL << 47 && !(address & 7);
}

/* read_receiver reads the word that points to the virtual table if the argument is an object. */
static __always_inline void read_receiver(struct moment *m, const struct pt_regs *ctx)
{
	m->ip = ctx->ip;
	for (int i = 0; i < RECEIVERS; i++)
		if (may_be_object(m->args[i]))
			read_user(&m->table[i], sizeof(m->table[i]), m->args[i]);
}

#endif
