/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls of allocators as allocations and releases: an address and a size. The cookie says
 * what a function's arguments mean (package uprobe, allocators). Only the outermost call
 * of nested allocator calls counts.
 */
#ifndef ENDOSCOPE_MEMORY_H
#define ENDOSCOPE_MEMORY_H

#include "moment.h"

/* What the arguments are: bits 28 to 31 of the cookie, which sequences use for GOID. */
#define ALLOCATOR(cookie) ((cookie) >> 28 & 15)
enum {
	TAKES_SIZE = 1,                 /* (size): malloc */
	TAKES_PRODUCT = 2,              /* (n, size): calloc */
	TAKES_PRODUCT_SECOND = 3,       /* (heap, n, size) */
	TAKES_SIZE_SECOND = 4,          /* (alignment, size): aligned_alloc */
	TAKES_SIZE_THIRD = 5,           /* (&address, alignment, size): posix_memalign */
	RESIZES = 6,                    /* (address, size): realloc */
	RESIZES_TO_PRODUCT = 7,         /* (address, n, size): reallocarray */
	RESIZES_SECOND = 8,             /* (heap, address, size) */
	RESIZES_SECOND_TO_PRODUCT = 9,  /* (heap, address, n, size) */
	RELEASES = 10,                  /* (address): free */
	RELEASES_SIZED = 11,            /* (address, size) */
	TAKES_TEXT = 12,                /* (text) or (heap, text): strdup, whose size is not known */
};

/* The value of an unknown size. */
#define NO_SIZE (~0ULL)

#define OF_MEMORY (options & (ALLOCATES | FREES))

/* counts_outermost reports whether the call counts: for memory, only the outermost does. */
static __always_inline bool counts_outermost(const struct moment *m)
{
	return !OF_MEMORY || !m->depth;
}

/* product returns n * size, or NO_SIZE on overflow: such a call fails. */
static __always_inline __u64 product(__u64 n, __u64 size)
{
	__u64 most = n ? NO_SIZE / n : NO_SIZE;

	/* Without this, clang emits a 128-bit multiplication, which BPF lacks. */
	asm volatile("" : "+r"(most));
	return size > most ? NO_SIZE : n * size;
}

/* note_size records the requested size at an entry, after the arguments. */
static __always_inline void note_size(struct moment *m)
{
	if (!OF_MEMORY)
		return;
	switch (ALLOCATOR(m->cookie)) {
	case TAKES_SIZE:
		m->size = m->args[0];
		break;
	case TAKES_PRODUCT:
		m->size = m->args[0] * m->args[1]; /* on overflow the call fails */
		break;
	case TAKES_PRODUCT_SECOND:
		m->size = m->args[1] * m->args[2];
		break;
	case TAKES_SIZE_SECOND:
	case RESIZES:
		m->size = m->args[1];
		break;
	case RESIZES_TO_PRODUCT:
		m->size = product(m->args[1], m->args[2]);
		break;
	case TAKES_SIZE_THIRD:
	case RESIZES_SECOND:
		m->size = m->args[2];
		break;
	case RESIZES_SECOND_TO_PRODUCT:
		m->size = product(m->args[2], m->args[3]);
		break;
	case RELEASES_SIZED:
		m->size = m->args[1];
		break;
	default:
		m->size = NO_SIZE;
	}
}

/*
 * settle decides at the return whether memory was allocated or released, and sets its
 * address. The time of a release is the entry of the call: from then on the allocator may
 * hand out the memory again.
 */
static __always_inline bool settle(struct moment *m)
{
	__u32 kind = ALLOCATOR(m->cookie);
	bool resizes = kind >= RESIZES && kind < RELEASES;

	if (!OF_MEMORY)
		return true;
	/* A tail call to another allocator function, which is a call of its own. */
	if (m->cookie & NO_RETVAL)
		return false;
	if (options & FREES) {
		m->address = kind == RESIZES_SECOND || kind == RESIZES_SECOND_TO_PRODUCT ? m->args[1] : m->args[0];
		m->time = m->start;
		if (resizes && !m->retval && m->size) /* the resize failed */
			return false;
		if (resizes)
			m->size = NO_SIZE;
		return m->address;
	}
	m->address = m->retval;
	if (kind == TAKES_SIZE_THIRD) {
		m->address = 0;
		if (!(__u32)m->retval)
			bpf_probe_read_user(&m->address, sizeof(m->address), (void *)m->args[0]);
	}
	return m->address;
}

#endif
