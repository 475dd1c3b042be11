/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The integer arguments of a call: in the registers of the C or Go calling convention,
 * or, where the map `arguments` says so, constants, registers and memory at an address
 * computed from registers.
 */
#ifndef ENDOSCOPE_ARGUMENTS_H
#define ENDOSCOPE_ARGUMENTS_H

#include "wait.h"

enum { NO_OPERAND = 0, OPERAND_CONSTANT = 1, OPERAND_REGISTER = 2, OPERAND_MEMORY = 3 };

/* A register is the index of its word in pt_regs. */
#define REGISTERS (sizeof(struct pt_regs) / sizeof(__u64))
#define NO_REGISTER 0xff

struct operand {
	__u8 kind;
	__u8 base, index;
	__u8 scale;   /* of index, as a shift */
	__u8 unused;  /* upper bits that are not part of the value */
	__u8 sign;    /* sign-extend into them */
	__u8 pad[2];
	__u64 value;  /* the constant, or what is added to base */
};
struct operands {
	struct operand of[ARGS];
};

/* Whether any function has an entry in `arguments`. */
const volatile bool placed = false;

/* By function. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* set by the loader */
	__type(key, __u32);
	__type(value, struct operands);
} arguments SEC(".maps");

static __always_inline __u64 read_register(const struct pt_regs *ctx, __u8 n)
{
	__u64 v = 0;

	if (n < REGISTERS)
		bpf_probe_read_kernel(&v, sizeof(v), (void *)ctx + n * sizeof(__u64));
	return v;
}

/* extend returns the value of an operand in v. */
static __always_inline __u64 extend(const struct operand *o, __u64 v)
{
	v <<= o->unused & 63;
	return o->sign ? (__u64)((__s64)v >> (o->unused & 63)) : v >> (o->unused & 63);
}

/*
 * read_operand reads an operand. If its memory cannot be read, it returns true, and the
 * address in to. It is a global function, so that the verifier checks it once; such
 * functions cannot wait.
 */
__noinline int read_operand(struct pt_regs *ctx, const struct operand *o, __u64 *to)
{
	__u64 v;
	long failed = 0;

	if (!ctx || !o || !to)
		return 0;
	v = o->value;
	if (o->kind >= OPERAND_REGISTER) {
		v += read_register(ctx, o->base);
		if (o->index < REGISTERS)
			v += read_register(ctx, o->index) << (o->scale & 3);
	}
	if (o->kind == OPERAND_MEMORY) {
		__u64 address = v;

		v = 0;
		/* Read no more than the value: the bytes after it may be unmapped. */
		switch (o->unused) {
		case 56:
			failed = bpf_probe_read_user(&v, 1, (void *)address);
			break;
		case 48:
			failed = bpf_probe_read_user(&v, 2, (void *)address);
			break;
		case 32:
			failed = bpf_probe_read_user(&v, 4, (void *)address);
			break;
		default:
			failed = bpf_probe_read_user(&v, 8, (void *)address);
		}
		if (failed) {
			*to = address;
			return 1;
		}
	}
	*to = extend(o, v);
	return 0;
}

/* await_operand reads an operand from its address v, and waits for it if the programs may. */
static __noinline bool await_operand(const struct operand *o, __u64 *v)
{
	__u64 address = *v;

	*v = 0;
	if (!waits || await_word(v, sizeof(*v) - (o->unused >> 3), address))
		return false;
	*v = extend(o, *v);
	return true;
}

/* read_operands reads the arguments of function id. */
static __always_inline void read_operands(__u64 *args, const struct pt_regs *ctx, __u32 id)
{
	struct operands *all = bpf_map_lookup_elem(&arguments, &id);

	if (!all)
		return;
	for (int i = 0; i < ARGS; i++) {
		__u64 v = 0;

		if (all->of[i].kind == NO_OPERAND)
			break;
		if (read_operand((struct pt_regs *)ctx, &all->of[i], &v) && !await_operand(&all->of[i], &v))
			COUNT_CALL(unreadable);
		args[i] = v;
	}
}

static __always_inline void read_args(__u64 *args, const struct pt_regs *ctx, __u64 cookie)
{
	if (placed && (cookie & (GO_REGISTERS | PLACED)) == PLACED) {
		read_operands(args, ctx, ID(cookie));
		return;
	}
	if (cookie & GO_REGISTERS) {
		args[0] = ctx->ax;
		args[1] = ctx->bx;
		args[2] = ctx->cx;
		args[3] = ctx->di;
		args[4] = ctx->si;
		args[5] = ctx->r8;
		/* Without this, clang merges both branches' loads into loads from a
		 * computed address in ctx, which the verifier rejects. */
		asm volatile("" ::: "memory");
		return;
	}
	args[0] = ctx->di;
	args[1] = ctx->si;
	args[2] = ctx->dx;
	args[3] = ctx->cx;
	args[4] = ctx->r8;
	args[5] = ctx->r9;
}

#endif
