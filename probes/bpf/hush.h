/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Sequences of which somebody keeps track who knows what each thread was in when
 * it began (package entities): events carry the frame, the address of the call's
 * return address, by which its calls are told apart from those.
 *
 * While nobody reports anything, such a sequence may be hushed, everywhere or on
 * threads of some names. Calls are then overlooked at their entry, but of functions
 * that are NEEDED; those that were told of before are still followed to their end.
 */
#ifndef ENDOSCOPE_HUSH_H
#define ENDOSCOPE_HUSH_H

#include "sequence.h"
#include "target.h"

enum { HUSH_NONE, HUSH_ALL, HUSH_SOME };
volatile __u32 hush;

#define MAX_HUSHED 256

/* Names of threads, padded with 0. */
struct hushed_name {
	char comm[TASK_COMM_LEN];
};
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_HUSHED);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct hushed_name);
	__type(value, __u8);
} hushed_names SEC(".maps");

/* hushed reports whether an entry is to be overlooked. */
static __always_inline bool hushed(__u64 cookie)
{
	if (!(options & SEND_FRAME) || !hush || (cookie & NEEDED))
		return false;
	if (hush == HUSH_ALL)
		return true;
	struct hushed_name n = {};
	bpf_get_current_comm(n.comm, sizeof(n.comm));
	return bpf_map_lookup_elem(&hushed_names, &n);
}

/* tell_over tells the exit, from the frame at, of a call whose entry was not seen. */
static __noinline int tell_over(__u64 cookie, __u64 at)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct moment m = {};

	if (!(options & SEND_FRAME) || hush || !targeted(cookie, task))
		return 0;
	__u64 id = bpf_get_current_pid_tgid();
	m.cookie = cookie;
	m.time = m.start = bpf_ktime_get_boot_ns();
	m.pid = id >> 32;
	m.tid = (__u32)id;
	m.event = OVER;
	m.address = at;
	if (options & USE_NAMES)
		read_names(&m, task);
	if (test_entry(&m) && test_return(&m))
		count_unsent(send_event(NULL, 0, &m));
	return 0;
}

#endif
