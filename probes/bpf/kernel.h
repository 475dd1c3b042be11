/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel types and fields that these programs read. Only names and types matter:
 * preserve_access_index makes every access a relocation that the loader resolves against
 * the running kernel's BTF. This replaces a vmlinux.h of three megabytes.
 */
#ifndef ENDOSCOPE_KERNEL_H
#define ENDOSCOPE_KERNEL_H

#include <linux/types.h>
#include <linux/bpf.h>

typedef _Bool bool;
#define true 1
#define false 0

/* The context of a uprobe program. Its layout is fixed: it needs no relocation. */
struct pt_regs {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8;
	unsigned long ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct super_block {
	__u32 s_dev;
};

struct inode {
	unsigned long i_ino;
	struct super_block *i_sb;
};

struct file {
	struct inode *f_inode;
};

/* The page with the trampoline that replaced return addresses point to. */
struct xol_area {
	unsigned long vaddr;
};

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	unsigned long flags; /* before Linux 6.18 */
	unsigned long start_stack;
	struct file *exe_file;
	struct uprobes_state uprobes_state;
};

typedef struct {
	unsigned long bits[1];
} mm_flags_t;

struct mm_struct___bitmap {
	mm_flags_t flags; /* since Linux 6.18 */
};

struct vm_area_struct {
	unsigned long vm_start, vm_end;
};

/* A return trap. */
struct return_instance {
	unsigned long stack, orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	unsigned int depth;
	struct return_instance *return_instances;
};

struct thread_struct {
	unsigned long fsbase;
};

/* include/uapi/asm-generic/resource.h */
#define RLIMIT_STACK 3

struct rlimit {
	unsigned long rlim_cur, rlim_max;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; /* threads that have not begun to end */
	struct rlimit rlim[16];
};

typedef struct {
	__u32 val;
} kuid_t, kgid_t;

typedef struct {
	__u64 val; /* before Linux 6.3 two words */
} kernel_cap_t;

struct user_namespace {
	int level;
};

struct cred {
	kuid_t uid, suid, euid;
	kgid_t gid, sgid, egid;
	kernel_cap_t cap_permitted;
	struct user_namespace *user_ns;
};

struct task_struct {
	struct mm_struct *mm;
	const struct cred *real_cred;
	struct task_struct *group_leader;
	int pid, tgid;
	__u64 start_boottime;
	char comm[16];
	__u64 self_exec_id;
	struct uprobe_task *utask;
	struct signal_struct *signal;
	unsigned long sas_ss_sp, sas_ss_size; /* the alternate signal stack */
	struct thread_struct thread;
};

#pragma clang attribute pop

/*
 * AT_MOST lowers x, which has 64 bits, to max, in the register that is used from here on. A
 * comparison in C may bound a copy of it only, which verifiers before Linux 6.8 do not connect.
 */
#define AT_MOST(x, max) asm volatile("if %0 <= %1 goto +1\n\t%0 = %1" : "+r"(x) : "ri"(max))

#endif
