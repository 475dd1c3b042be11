//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Lives of processes and threads, from the scheduler's tracepoints: one record when a
 * thread is created, a program is executed, a thread ends, or is renamed. Constants select
 * the kinds of records, so that the others cost nothing.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

/* struct life.event */
enum {
	PROCESS_START = 1,
	PROCESS_EXEC = 2,
	PROCESS_END = 4,
	THREAD_START = 8,
	THREAD_END = 16,
	THREAD_RENAME = 32,
};

/* The largest variable parts of a record. */
#define MAX_PATH 4096
#define MAX_ARGV 16384 /* longer ones are cut */
#define MAX_NAMES 48   /* components of a path */

struct life {
	__u64 time;       /* boot clock, ns */
	__u64 start;      /* of the process or thread, boot clock, ns */
	__u64 inode;      /* of the executable; 0: not known */
	__u32 event;
	__u32 pid, tid;
	__u32 parent_pid; /* of the process */
	__u32 parent_tid; /* the thread that created it; starts only */
	__s32 status;     /* as wait(2) has it; ends only */
	__u32 path;       /* bytes of path that follow: its components, last first, each with a NUL */
	__u32 argv;       /* bytes of arguments that follow, each with a NUL */
	__u32 argv_all;   /* bytes of arguments in all */
	char process[16], thread[16];
	__u32 cut;        /* CUT_PATH | NO_ARGV */
	__u32 device;     /* of the executable's superblock, major << 20 | minor */
};

enum { CUT_PATH = 1, NO_ARGV = 2 };

const struct life *const type_life __attribute__((unused)) = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct qstr {
	const unsigned char *name;
};

struct dentry {
	struct dentry *d_parent;
	struct qstr d_name;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct file___named {
	struct path f_path;
	struct inode *f_inode;
};

struct mm_struct___args {
	unsigned long arg_start, arg_end;
	struct file___named *exe_file;
};

struct kernel_clone_args {
	__u32 user_worker : 1; /* since Linux 6.4 */
};

struct counted {
	int counter;
};

struct signal_struct___ending {
	struct counted live;
	unsigned int flags;
	int group_exit_code;
};

struct task_struct___living {
	struct mm_struct___args *mm;
	struct task_struct___living *group_leader, *real_parent;
	int pid, tgid;
	unsigned int flags;
	int exit_code;
	__u64 start_boottime;
	char comm[16];
	struct signal_struct___ending *signal;
};

#pragma clang attribute pop

#define PF_IO_WORKER 0x00000010
#define PF_USER_WORKER 0x00004000 /* since Linux 6.4; another flag had the bit before */
#define PF_KTHREAD 0x00200000
#define SIGNAL_GROUP_EXIT 4

const volatile __u32 wanted = 0;      /* events */
const volatile bool want_path = 0;
const volatile bool want_argv = 0;
const volatile bool tells_last = 0;   /* sched_process_exit has group_dead */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} lives SEC(".maps");

struct room {
	struct life life;
	char data[MAX_PATH + MAX_ARGV];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct room);
} rooms SEC(".maps");

/* Processes that ended recently: two threads may each appear to be the last. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, __u8);
} over SEC(".maps");

__u64 lost = 0;

/*
 * name_path writes the components of a path to r->data, last to first. At the root of a
 * mount it continues at the mount point (fs/d_path.c, prepend_path). A dentry that is its
 * own parent and no root of a mount is in no directory, as that of a memfd: it has only a
 * name.
 */
static __always_inline void name_path(struct room *r, const struct path *p)
{
	struct dentry *d = BPF_CORE_READ(p, dentry);
	struct vfsmount *v = BPF_CORE_READ(p, mnt);
	struct mount *m = (void *)v - bpf_core_field_offset(struct mount, mnt);
	__u64 at = 0;

	if (d == BPF_CORE_READ(d, d_parent) && d != BPF_CORE_READ(m, mnt.mnt_root)) {
		long n = bpf_probe_read_kernel_str(r->data, 256, BPF_CORE_READ(d, d_name.name));
		if (n > 0)
			r->life.path = n;
		return;
	}
	for (int i = 0; i < MAX_NAMES; i++) {
		struct dentry *up = BPF_CORE_READ(d, d_parent);
		if (d == BPF_CORE_READ(m, mnt.mnt_root) || d == up) {
			struct mount *over = BPF_CORE_READ(m, mnt_parent);
			if (over == m) {
				r->life.path = at;
				return;
			}
			d = BPF_CORE_READ(m, mnt_mountpoint);
			m = over;
			continue;
		}
		if (at > MAX_PATH - 256)
			break;
		AT_MOST(at, MAX_PATH - 256);
		long n = bpf_probe_read_kernel_str(r->data + at, 256, BPF_CORE_READ(d, d_name.name));
		if (n <= 0)
			break;
		at += n;
		d = up;
	}
	r->life.cut |= CUT_PATH;
}

/* copy_argv appends the arguments of the program of mm, which is the current one or a copy of it. */
static __always_inline void copy_argv(struct room *r, struct mm_struct___args *mm)
{
	unsigned long from = mm->arg_start, to = mm->arg_end;
	__u64 at = r->life.path, n = to - from;

	if (to <= from)
		return;
	r->life.argv_all = n;
	AT_MOST(at, MAX_PATH);
	AT_MOST(n, MAX_ARGV);
	if (bpf_probe_read_user(r->data + at, n, (void *)from)) {
		r->life.cut |= NO_ARGV;
		return;
	}
	r->life.argv = n;
}

/* describe starts a record of thread t. */
static __always_inline struct room *describe(struct task_struct___living *t, __u32 event)
{
	__u32 zero = 0;
	struct room *r = bpf_map_lookup_elem(&rooms, &zero);
	if (!r)
		return 0;
	struct task_struct___living *leader = t->group_leader;
	r->life.time = bpf_ktime_get_boot_ns();
	r->life.start = event & (THREAD_START | THREAD_END | THREAD_RENAME) ? t->start_boottime : leader->start_boottime;
	r->life.event = event;
	r->life.pid = t->tgid;
	r->life.tid = t->pid;
	r->life.parent_pid = leader->real_parent->tgid;
	r->life.parent_tid = 0;
	r->life.status = 0;
	r->life.path = r->life.argv = r->life.argv_all = r->life.cut = 0;
	r->life.device = r->life.inode = 0;
	__builtin_memcpy(r->life.process, leader->comm, sizeof(r->life.process));
	__builtin_memcpy(r->life.thread, t->comm, sizeof(r->life.thread));
	return r;
}

static __always_inline void add_program(struct room *r, struct mm_struct___args *mm, bool argv)
{
	if (!mm)
		return;
	if (want_path) {
		struct file___named *exe = mm->exe_file;
		if (exe) {
			name_path(r, &exe->f_path);
			r->life.device = exe->f_inode->i_sb->s_dev;
			r->life.inode = exe->f_inode->i_ino;
		}
	}
	if (want_argv && argv)
		copy_argv(r, mm);
}

static __always_inline int send(struct room *r)
{
	__u64 n = sizeof(struct life) + r->life.path + r->life.argv;

	AT_MOST(n, sizeof(*r));
	if (bpf_ringbuf_output(&lives, r, n, 0))
		__sync_fetch_and_add(&lost, 1);
	return 0;
}

/* TP_PROTO(struct task_struct *parent, struct task_struct *child); parent is this thread. */
SEC("tp_btf/sched_process_fork")
int started(__u64 *ctx)
{
	struct task_struct___living *parent = (void *)ctx[0], *t = (void *)ctx[1];
	bool leads = t->pid == t->tgid;
	__u32 event = wanted & (leads ? PROCESS_START | THREAD_START : THREAD_START);

	if (!event || t->flags & PF_KTHREAD)
		return 0;
	struct room *r = describe(t, event);
	if (!r)
		return 0;
	r->life.parent_tid = parent->pid;
	add_program(r, t->mm, leads);
	return send(r);
}

/* TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm) */
SEC("tp_btf/sched_process_exec")
int executed(__u64 *ctx)
{
	struct task_struct___living *t = (void *)ctx[0];
	struct room *r = describe(t, PROCESS_EXEC);
	if (!r)
		return 0;
	add_program(r, t->mm, true);
	return send(r);
}

static __always_inline bool last(__u64 *ctx, struct task_struct___living *t)
{
	if (tells_last)
		return ctx[1] & 1;
	if (t->signal->live.counter)
		return false;
	__u64 key = t->group_leader->start_boottime ^ (__u64)t->tgid << 40;
	__u8 one = 1;
	return !bpf_map_update_elem(&over, &key, &one, BPF_NOEXIST);
}

/* TP_PROTO(struct task_struct *p, bool group_dead), the second since Linux 6.16. */
SEC("tp_btf/sched_process_exit")
int ended(__u64 *ctx)
{
	struct task_struct___living *t = (void *)ctx[0];
	if (t->flags & PF_KTHREAD)
		return 0;
	/* An io_uring worker is not a thread of the program, but may be the last thread
	 * of its process. */
	__u32 workers = PF_IO_WORKER;
	if (bpf_core_field_exists(struct kernel_clone_args, user_worker))
		workers |= PF_USER_WORKER;
	bool worker = t->flags & workers;
	__u32 event = worker ? 0 : wanted & THREAD_END;
	if (wanted & PROCESS_END && last(ctx, t))
		event |= PROCESS_END;
	if (!event)
		return 0;
	struct room *r = describe(t, event);
	if (!r)
		return 0;
	if (worker) {
		struct task_struct___living *leader = t->group_leader;
		r->life.tid = leader->pid;
		__builtin_memcpy(r->life.thread, leader->comm, sizeof(r->life.thread));
	}
	struct signal_struct___ending *s = t->signal;
	r->life.status = t->exit_code;
	if (event & PROCESS_END)
		r->life.status = s->flags & SIGNAL_GROUP_EXIT ? s->group_exit_code : t->group_leader->exit_code;
	add_program(r, t->mm, false);
	return send(r);
}

/* TP_PROTO(struct task_struct *task, const char *comm): task is about to be renamed. */
SEC("tp_btf/task_rename")
int renamed(__u64 *ctx)
{
	struct task_struct___living *t = (void *)ctx[0];
	if (t->flags & PF_KTHREAD)
		return 0;
	struct room *r = describe(t, THREAD_RENAME);
	if (!r)
		return 0;
	bpf_probe_read_kernel_str(r->life.thread, sizeof(r->life.thread), (void *)ctx[1]);
	add_program(r, t->mm, false);
	return send(r);
}
