/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether a query's user may observe a process: the rule of process.Visible,
 * for the process as it is at the event. One that may be observed can execute a
 * set-user-ID program, which may not, and keeps its pid, its name and the probes.
 */
#ifndef ENDOSCOPE_VISIBLE_H
#define ENDOSCOPE_VISIBLE_H

#include "moment.h"

#define DUMPABLE_MASK 3 /* MMF_DUMPABLE_MASK of include/linux/sched/coredump.h */
#define DUMP_USER 1     /* SUID_DUMP_USER */

/* Levels of the hierarchy that have a cgroup in `targets`, by bit. */
const volatile __u32 cgroup_levels = 0;
#define MAX_CGROUP_LEVEL 16

/* dumpable reports whether the kernel lets the process' user look at it. */
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

/* visible reports whether the process may be observed. */
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

#endif
