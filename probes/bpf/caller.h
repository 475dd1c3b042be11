/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Where a call comes from: the function it returns to, and the whole stack. Both
 * are looked at when the event is sent, which may be at the return: what called
 * the function is on the stack then as it was at the entry, and calls that are
 * not wanted cost nothing.
 *
 * The stack goes to user space as it lies in memory, which unwinds it (package
 * stack).
 */
#ifndef ENDOSCOPE_CALLER_H
#define ENDOSCOPE_CALLER_H

#include "moment.h"

/* What is sent where the stack is wanted: the thread as it is at the event. */
struct copied {
	__u64 image;      /* changes when the process executes another program */
	__u64 trampoline; /* where return addresses taken by return traps point; 0: none */
	__u64 regs[17];   /* as DWARF numbers them: rax rdx rcx rbx rsi rdi rbp rsp r8-r15 rip */
	__u64 returned;   /* an instruction of the function, if it has returned: regs are the caller's; else 0 */
	__u64 return_at;  /* where on the stack its return address lies, if it has not; else 0 */
	__u32 returns;    /* how many struct taken follow */
	__u32 texts;      /* bytes of texts that follow those: values.h */
	__u64 bytes;      /* how much of the stack follows the texts, from rsp on */
};

/* A return address that a return trap has replaced. */
struct taken {
	__u64 at;      /* where it was on the stack */
	__u64 address; /* what was there */
};

/* The kernel's own limit of nested return traps. */
#define MAX_TAKEN 64

static __always_inline struct return_instance *traps_of(struct task_struct *task)
{
	struct uprobe_task *u = plain(task)->utask;

	return u ? u->return_instances : NULL;
}

static __always_inline __u64 trampoline_of(struct task_struct *task)
{
	struct xol_area *area = plain(task)->mm->uprobes_state.xol_area;

	return area ? area->vaddr : 0;
}

/* taken_from is the return address that a return trap took from an address of the stack; 0: none did. */
__noinline __u64 taken_from(__u64 at)
{
	struct return_instance *ri;

	if (!(options & SEND_CALLER)) /* for the verifier, which then skips the rest */
		return 0;
	ri = traps_of(bpf_get_current_task_btf());
	for (int i = 0; i < MAX_TAKEN && ri; i++) {
		if (BPF_CORE_READ(ri, stack) == at)
			return BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
	}
	return 0;
}

/*
 * caller_of is the address to which a call returns: at slot on the stack, or if
 * it has returned (0), where the thread is. 0: it cannot be read.
 */
static __always_inline __u64 caller_of(const struct pt_regs *ctx, __u64 slot)
{
	__u64 address = 0;

	if (!slot) {
		address = ctx->ip;
		/* Else clang makes one load of this and what is read below, from a
		 * computed address in ctx, which the verifier refuses. */
		asm volatile("" ::: "memory");
		return address;
	}
	bpf_probe_read_user(&address, sizeof(address), (void *)slot);
	if (address && address == trampoline_of(bpf_get_current_task_btf()))
		address = taken_from(slot);
	return address;
}

/* note_caller is for an entry of a sequence, all of whose events have the caller. */
static __always_inline void note_caller(struct moment *m, const struct pt_regs *ctx, __u64 slot)
{
	if ((options & SEQUENCE) && (options & SEND_CALLER))
		m->caller = caller_of(ctx, slot);
}

#endif
