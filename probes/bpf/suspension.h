/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Suspending a sequence. Package entities keeps track of each thread's calls, including
 * those that were under way when it began. Its events carry the frame (the address of the
 * return address), which identifies such calls.
 *
 * While nothing is reported, the sequence may be suspended, everywhere or on threads with
 * certain names. Entries are then ignored, except of functions that are NEEDED. Calls
 * that were reported before are followed to their end.
 */
#ifndef ENDOSCOPE_SUSPENSION_H
#define ENDOSCOPE_SUSPENSION_H

#include "sequence.h"
#include "target.h"

enum { SUSPEND_NONE, SUSPEND_ALL, SUSPEND_SOME };
volatile __u32 suspension;

#define MAX_SUSPENDED 256

/* Names of threads, padded with 0. */
struct suspended_name {
	char comm[TASK_COMM_LEN];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_SUSPENDED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct suspended_name);
	__type(value, __u8);
} suspended_names SEC(".maps");

/* is_suspended reports whether an entry is to be ignored. */
static __always_inline bool is_suspended(__u64 cookie)
{
	if (!(options & SEND_FRAME) || !suspension || (cookie & NEEDED))
		return false;
	if (suspension == SUSPEND_ALL)
		return true;
	struct suspended_name n = {};
	bpf_get_current_comm(n.comm, sizeof(n.comm));
	return bpf_map_lookup_elem(&suspended_names, &n);
}

/* tell_over reports the exit, from frame at, of a call whose entry was not seen. */
static __noinline int tell_over(__u64 cookie, __u64 at)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!(options & SEND_FRAME) || suspension || !targeted(cookie, task))
		return 0;
	struct moment *m = new_moment(task);
	if (!m) {
		COUNT_CALL(lost);
		return 0;
	}
	__u64 id = bpf_get_current_pid_tgid();
	m->cookie = cookie;
	m->time = m->start = bpf_ktime_get_boot_ns();
	m->pid = id >> 32;
	m->tid = (__u32)id;
	m->event = OVER;
	m->address = at;
	if (options & USE_NAMES)
		read_names(m, task);
	if (test_entry(m) && test_return(m))
		count_unsent(send_event(NULL, 0, m));
	return 0;
}

#endif
