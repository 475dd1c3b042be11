//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * execve by a thread that is not its process' leader. The thread becomes the leader, with
 * its pid (de_thread in fs/exec.c), and the old leader's task is released. A link that is
 * restricted to the process keeps comparing with the old task's memory
 * (uprobe_multi_link_filter in kernel/trace/bpf_trace.c), and so no longer matches.
 */
#include "kernel.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

char LICENSE[] SEC("license") = "GPL";

struct execution {
	__u64 time;  /* boot clock, ns */
	__u64 image; /* task->self_exec_id: identifies the program in the process */
	__u32 pid, tid; /* of the process, and of the thread that called execve */
};

const struct execution *const type_execution __attribute__((unused)) = 0;

/* Such events are rare on the whole machine. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 14);
} executions SEC(".maps");

__u64 unheard = 0; /* events that found the ring full */

/* TP_PROTO(struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm); p is this thread. */
SEC("raw_tp/sched_process_exec")
int executed(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	__u32 pid = bpf_get_current_pid_tgid(), before = ctx[1];

	if (pid == before)
		return 0;
	struct execution *x = bpf_ringbuf_reserve(&executions, sizeof(*x), 0);
	if (!x) {
		__sync_fetch_and_add(&unheard, 1);
		return 0;
	}
	x->time = bpf_ktime_get_boot_ns();
	x->image = BPF_CORE_READ(task, self_exec_id);
	x->pid = pid;
	x->tid = before;
	bpf_ringbuf_submit(x, BPF_RB_FORCE_WAKEUP);
	return 0;
}
