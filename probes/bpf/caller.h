/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The caller of a call, and its stack. Both are read when the event is sent, which may be
 * at the return: the callers' frames are unchanged then, and calls that are not selected
 * cost nothing. The stack is sent as raw memory and unwound in user space (package stack).
 */
#ifndef ENDOSCOPE_CALLER_H
#define ENDOSCOPE_CALLER_H

#include "moment.h"

/* The thread at the event, sent with a copy of its stack. */
struct copied {
	__u64 image;      /* changes when the process executes another program */
	__u64 trampoline; /* the address that return traps put on the stack; 0: none */
	__u64 regs[17];   /* as DWARF numbers them: rax rdx rcx rbx rsi rdi rbp rsp r8-r15 rip */
	__u64 returned;   /* an instruction of the function, if it has returned: regs are the caller's; else 0 */
	__u64 return_at;  /* where on the stack its return address lies, if it has not; else 0 */
	__u32 returns;    /* how many struct taken follow */
	__u32 texts;      /* bytes of texts that follow those: values.h */
	__u64 bytes;      /* of the stack, from rsp up, that follow the texts */
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

/* taken_from returns the return address that a return trap replaced at an address of the stack; 0: none did. */
__noinline __u64 taken_from(__u64 at)
{
	struct return_instance *ri;

	if (!(options & SEND_CALLER)) /* lets the verifier skip the rest */
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
 * caller_of returns the return address of a call: the word at slot on the stack, or for a
 * call that has returned (slot 0), the thread's instruction pointer. 0: unreadable.
 */
static __always_inline __u64 caller_of(const struct pt_regs *ctx, __u64 slot)
{
	__u64 address = 0;

	if (!slot) {
		address = ctx->ip;
		/* Without this, clang merges the load with the one below into a load
		 * from a computed address in ctx, which the verifier rejects. */
		asm volatile("" ::: "memory");
		return address;
	}
	bpf_probe_read_user(&address, sizeof(address), (void *)slot);
	if (address && address == trampoline_of(bpf_get_current_task_btf()))
		address = taken_from(slot);
	return address;
}

/* note_caller records the caller at an entry of a sequence, for all events of the call. */
static __always_inline void note_caller(struct moment *m, const struct pt_regs *ctx, __u64 slot)
{
	if ((options & SEQUENCE) && (options & SEND_CALLER))
		m->caller = caller_of(ctx, slot);
}

#endif
