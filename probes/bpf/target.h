/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which processes a query observes: its targets, and those of them that the query's
 * user may observe. The latter is the rule of process.Visible, applied to the process
 * as it is at the event. A process that may be observed can execute a set-user-ID
 * program, which may not; it keeps its pid, its name and the probes.
 */
#ifndef ENDOSCOPE_TARGET_H
#define ENDOSCOPE_TARGET_H

#include "counters.h"

enum {
	TARGET_PID = 1, TARGET_COMM = 2, TARGET_EXE = 3,
	/* Processes that the query's user may observe. */
	TARGET_USER = 4, TARGET_OWNER = 5, TARGET_GROUP = 6, TARGET_ROOT = 7, TARGET_CGROUP = 8,
};

/* A target, by pid, comm (padded with 0) or executable (device and inode); or processes
 * that may be observed, by user, group or cgroup. */
struct target {
	__u64 kind;
	__u64 id[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct target);
	__type(value, __u8);
} targets SEC(".maps");

/* The pid of the only target, which saves the lookup; 0: there may be several. */
const volatile __u32 only_pid = 0;

static __always_inline bool has_target(const struct target *t)
{
	return bpf_map_lookup_elem(&targets, t) != NULL;
}

/*
 * The processes that descend from those given by pid, and where children are followed,
 * these themselves and the descendants of all processes of the target: follow.h.
 */
enum { CHILD = 1 << 0, HIDDEN = 1 << 1 }; /* HIDDEN: it has made calls that the user may not observe */

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1); /* set by the loader */
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32); /* pid */
	__type(value, __u32);
} family SEC(".maps");

/* The members of family are targets. */
const volatile bool follows = false;

static __always_inline __u32 *member(void)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_lookup_elem(&family, &pid);
}

#define DUMPABLE_MASK 3 /* MMF_DUMPABLE_MASK of include/linux/sched/coredump.h */
#define DUMP_USER 1     /* SUID_DUMP_USER */

/* Bit set of the cgroup levels that have an entry in `targets`. */
const volatile __u32 cgroup_levels = 0;
#define MAX_CGROUP_LEVEL 16

/* dumpable reports whether the process' own user may trace it. */
static __always_inline bool dumpable(struct mm_struct *mm)
{
	struct mm_struct___bitmap *now = (void *)mm;
	__u64 flags = 0;

	if (bpf_core_field_exists(now->flags))
		bpf_core_read(&flags, sizeof(flags), &now->flags);
	else
		bpf_core_read(&flags, sizeof(flags), &mm->flags);
	return (flags & DUMPABLE_MASK) == DUMP_USER;
}

/* visible reports whether the query's user may observe the process. */
static __always_inline bool visible(struct task_struct *task)
{
	if (!(options & GUARDED))
		return true;
	const struct cred *cred = BPF_CORE_READ(task, real_cred);
	__u32 uid = BPF_CORE_READ(cred, uid.val);
	__u32 gid = BPF_CORE_READ(cred, gid.val);
	bool here = BPF_CORE_READ(cred, user_ns, level) == 0;
	struct target t = {};

	if (here && BPF_CORE_READ(cred, euid.val) == uid && BPF_CORE_READ(cred, suid.val) == uid) {
		t.kind = TARGET_USER;
		t.id[0] = uid;
		if (has_target(&t))
			return true;
		t.kind = TARGET_OWNER;
		if (has_target(&t)) {
			__u64 capabilities = 1;

			bpf_core_read(&capabilities, sizeof(capabilities), &cred->cap_permitted);
			t.kind = TARGET_GROUP;
			t.id[0] = gid;
			if (dumpable(BPF_CORE_READ(task, mm)) && !capabilities &&
			    BPF_CORE_READ(cred, egid.val) == gid && BPF_CORE_READ(cred, sgid.val) == gid && has_target(&t))
				return true;
		}
	}
	if (here) {
		t.kind = TARGET_ROOT; /* the user is root */
		t.id[0] = 0;
		if (has_target(&t))
			return true;
	}
	t.kind = TARGET_CGROUP;
	for (int level = 1; level < MAX_CGROUP_LEVEL; level++) {
		if (!(cgroup_levels & (1 << level)))
			continue;
		t.id[0] = bpf_get_current_ancestor_cgroup_id(level);
		if (t.id[0] && has_target(&t))
			return true;
	}
	return false;
}

/* is_named reports whether a target has the process' name or executable. */
static __always_inline bool is_named(struct task_struct *task)
{
	struct target t = {};

	if (options & ONLY_COMMS) {
		t.kind = TARGET_COMM;
		BPF_CORE_READ_STR_INTO((char (*)[TASK_COMM_LEN])&t.id, task, group_leader, comm);
		if (has_target(&t))
			return true;
	}
	if (options & ONLY_EXES) {
		t.kind = TARGET_EXE;
		t.id[0] = BPF_CORE_READ(task, mm, exe_file, f_inode, i_sb, s_dev);
		t.id[1] = BPF_CORE_READ(task, mm, exe_file, f_inode, i_ino);
		if (has_target(&t))
			return true;
	}
	return false;
}

/* note_hidden counts a child, once, whose calls may not be observed any more. */
static __always_inline void note_hidden(void)
{
	if (!follows || !(options & GUARDED))
		return;
	__u32 *m = member();
	if (m && *m == CHILD) {
		*m |= HIDDEN;
		COUNT_CALL(hidden);
	}
}

/* targeted reports whether the query observes the function in this process. */
static __always_inline bool targeted(__u64 cookie, struct task_struct *task)
{
	if (!visible(task)) {
		note_hidden();
		return false;
	}
	if (!(cookie & ONLY_TARGETS))
		return true;
	if (only_pid)
		return bpf_get_current_pid_tgid() >> 32 == only_pid;
	if (follows && member())
		return true;
	if (options & ONLY_PIDS) {
		struct target t = {.kind = TARGET_PID, .id = {bpf_get_current_pid_tgid() >> 32}};
		if (has_target(&t))
			return true;
	}
	return is_named(task);
}

#endif
