/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queries whose returns need only the start time of the call. The kernel stores it with
 * the return trap (the session's cookie) and pairs entry and return itself: abandoned
 * calls never get here, and calls inherited by a forked child are older than the child. So
 * nothing is stored for each call, which saves a fifth of the cost above that of an empty
 * session.
 */
#ifndef ENDOSCOPE_TIMED_H
#define ENDOSCOPE_TIMED_H

#include "aggregate.h"
#include "calls.h"
#include "entry.h"
#include "gate.h"
#include "generation.h"
#include "standby.h"
#include "target.h"

/* Whether the query is such a one: it has no options other than these. */
#define TIMED                                                                   \
	((options & AT_RETURN) && !context_words &&                             \
	 !(options & ~(AT_RETURN | LATE_NAMES | ONLY_PIDS | ONLY_COMMS |        \
		       ONLY_EXES | GATED | GUARDED | STANDBY)))

/* clear_timed zeroes the parts of a moment that such a query uses: what precedes the arguments, and absent. */
static __always_inline void clear_timed(struct moment *m)
{
	__builtin_memset(m, 0, __builtin_offsetof(struct moment, args));
	m->absent = 0;
}

/*
 * has_own_stack reports whether sp lies in the thread's own stack, and counts the call if
 * not. The stack is looked up once if sp is not near its anchor.
 */
static __always_inline bool has_own_stack(struct task_struct *task, __u64 sp)
{
	if (on_signal_stack(task, sp)) {
		COUNT_CALL(foreign);
		return false;
	}
	struct bounds sure = sure_stack(task);
	if (sure.lo <= sp && sp < sure.hi)
		return true;
	struct thread *t = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!t) {
		COUNT_CALL(unstored);
		return false;
	}
	if (t->exec_id != task->self_exec_id) {
		t->exec_id = task->self_exec_id;
		t->stack.lo = t->stack.hi = 0;
	}
	switch (own_stack(&t->stack, task, sp)) {
	case STACK_OWN:
		return true;
	case STACK_FOREIGN:
		COUNT_CALL(foreign);
		return false;
	}
	COUNT_CALL(unchecked);
	return false;
}

/*
 * enter_timed handles an entry. Returns whether the return is to be trapped; start is set
 * then. The two are not inlined, so that their frames are not in those of other queries.
 */
static __noinline bool enter_timed(struct pt_regs *ctx, __u64 cookie, __u64 *start)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct moment m;

	if (stands_by(cookie) || !admitted() || !targeted(cookie, task))
		return false;
	count_hit(cookie);
	clear_timed(&m);
	look(&m, ctx, cookie, task);
	if (!test_entry(&m) || !has_own_stack(task, ctx->sp))
		return false;
	struct uprobe_task *utask = plain(task)->utask;
	if (utask && utask->depth >= MAX_CALLS) {
		COUNT_CALL(nesting);
		return false;
	}
	COUNT_ARMED(&m);
	*start = m.start;
	return true;
}

/* leave_timed handles the return of a call that began at start. */
static __noinline int leave_timed(struct pt_regs *ctx, __u64 cookie, __u64 start)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct moment m;

	if (is_closed())
		return 0;
	if (start < task->start_boottime) {
		if (targeted(cookie, task))
			COUNT_CALL(inherited);
		return 0;
	}
	__u64 before = covered();
	__u64 id = bpf_get_current_pid_tgid();
	clear_timed(&m);
	m.cookie = cookie;
	m.start = start;
	conclude(&m, bpf_ktime_get_boot_ns());
	m.retval = ctx->ax;
	m.pid = id >> 32;
	m.tid = (__u32)id;
	COUNT_RETURNED(&m);
	if (test_return(&m) && cover(&m, before, true))
		emit(ctx, &m, 0);
	return 0;
}

#endif
