//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Function entries and returns, of one query.
 *
 * Each query has its own programs and maps; only the ring buffer is shared. The
 * kernel runs the programs of all queries in one trap. The ways to attach:
 *
 *   entry               entries only
 *   session             entry and return in one program (Linux 6.13)
 *   pair_entry/_return  the same with two links, for kernels before it
 *   frame_entry/_exit   entry, and the instructions by which the function leaves
 *   reported_entry/_return  the probes of a virtual machine or an interpreter, which name the function
 *
 * and, where calls that do not return matter:
 *
 *   goroutine_end       a goroutine exits
 *   frame_landing       a function continues after a recovered panic
 *   frame_unwinding     a frame continues after an exception
 *   frame_jump          a frame continues after longjmp
 *   call_jump           the same where returns are trapped
 *   frame_switch        a thread continues on another stack
 *   thread_end          a thread ends, and its sequence
 *   frame_thread_end    the same where exits are probed
 *   reported_thread_end the same for calls that are reported
 *
 * and, for the children of the target's processes:
 *
 *   process_began       a process is started
 *   process_ended       a process ends
 *
 * All but the session can be linked to many sites at once (Linux 6.6) or to one perf
 * event each (Linux 5.15). The loader chooses; the section names are the usual case.
 *
 * The options of a query are constants when it is loaded, so the verifier removes unused
 * code. test_entry and test_return select calls; the loader replaces their bodies
 * (package codegen).
 */
#include "aggregate.h"
#include "calls.h"
#include "context.h"
#include "coroutines.h"
#include "entry.h"
#include "exit.h"
#include "follow.h"
#include "frames.h"
#include "gate.h"
#include "suspension.h"
#include "reported.h"
#include "opening.h"
#include "recall.h"
#include "sequence.h"
#include "target.h"
#include "timed.h"

char LICENSE[] SEC("license") = "GPL";

/* Keeps the types in the object, for bpf2go to generate Go types. */
const struct moment *const type_moment __attribute__((unused)) = 0;
const struct event *const type_event __attribute__((unused)) = 0;
const struct event_return *const type_event_return __attribute__((unused)) = 0;
const struct event_names *const type_event_names __attribute__((unused)) = 0;
const struct event_args *const type_event_args __attribute__((unused)) = 0;
const struct event_full *const type_event_full __attribute__((unused)) = 0;
const struct event_receiver *const type_event_receiver __attribute__((unused)) = 0;
const struct event_cost *const type_event_cost __attribute__((unused)) = 0;
const struct copied *const type_copied __attribute__((unused)) = 0;
const struct taken *const type_taken __attribute__((unused)) = 0;
const struct frame *const type_frame __attribute__((unused)) = 0;
const struct pending *const type_pending __attribute__((unused)) = 0;
const struct goroutine *const type_goroutine __attribute__((unused)) = 0;
const struct method_key *const type_method_key __attribute__((unused)) = 0;
const struct event_method *const type_event_method __attribute__((unused)) = 0;
const struct operand *const type_operand __attribute__((unused)) = 0;
const struct operands *const type_operands __attribute__((unused)) = 0;
const struct owner *const type_owner __attribute__((unused)) = 0;
const struct left *const type_left __attribute__((unused)) = 0;
const struct suspended *const type_suspended __attribute__((unused)) = 0;
const struct here *const type_here __attribute__((unused)) = 0;
const struct elsewhere *const type_elsewhere __attribute__((unused)) = 0;
const struct inside *const type_inside __attribute__((unused)) = 0;
const struct recorded *const type_recorded __attribute__((unused)) = 0;
const struct recall_pool *const type_recall_pool __attribute__((unused)) = 0;
const struct firing *const type_firing __attribute__((unused)) = 0;

extern __u64 *bpf_session_cookie(void) __ksym __weak;
extern bool bpf_session_is_return(void) __ksym __weak;

/*
 * Whether the call is put on the stack before it is tested: depth counts all calls, and
 * where every return is trapped, the return of an unselected call must not be paired with
 * a stale one.
 */
#define STACK_FIRST (options & (USE_DEPTH | PAIR))

/*
 * keep stores what the return needs to know of a call. Most queries need a quarter of the
 * moment.
 */
static __always_inline void keep(struct moment *to, const struct moment *m)
{
	if (records) {
		to->goroutine = m->goroutine;
	} else if ((options & (SEQUENCE | SEND_RECEIVER | SEND_GOROUTINE | SEND_COST)) || !(options & AT_RETURN)) {
		*to = *m;
		return;
	}
	to->cookie = m->cookie;
	to->start = m->start;
	to->pid = m->pid;
	to->tid = m->tid;
	to->depth = m->depth;
	if (options & USE_SELF)
		to->inner = 0;
	if (options & SEND_STACK)
		to->ip = m->ip;
	if (OF_MEMORY)
		to->size = m->size;
	if (options & (USE_ARGS | USE_VALUES))
		__builtin_memcpy(to->args, m->args, sizeof(m->args));
	if (options & (USE_VALUES | USE_RESULT))
		to->absent = m->absent;
	if (context_words)
		to->below = m->below;
	if (options & USE_NAMES)
		__builtin_memcpy(to->process, m->process, 2 * TASK_COMM_LEN);
}

/*
 * enter handles an entry. Returns whether the return is to be trapped. start, if not NULL,
 * is set to the time for the kernel to store.
 */
static __always_inline bool enter(struct pt_regs *ctx, __u64 cookie, __u64 *start)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 sp = ctx->sp;
	bool armed = false, wanted = true;
	__u32 n;

	if (stands_by(cookie) || is_suspended(cookie))
		return false;
	bool open = admitted();
	if (!open && !STACK_FIRST)
		return false;
	if (!targeted(cookie, task) || is_closed_to(cookie))
		return false;
	count_hit(cookie);
	__u64 before = covered();
	struct moment *m = new_moment(task);
	if (!m) {
		struct thread *known = bpf_task_storage_get(&threads, task, NULL, 0);
		if (known)
			known->gap = 1;
		COUNT_CALL(unstored);
		return false;
	}
	look(m, ctx, cookie, task);
	if (context_words)
		m->below = on_signal_stack(task, sp) ? INNERMOST_FRAME : -sp;
	if (options & SEND_FRAME)
		m->address = sp;
	if (!STACK_FIRST && !test_entry(m))
		return false;

	struct thread *t = bpf_task_storage_get(&threads, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	int stack = STACK_UNKNOWN;
	if (t) {
		if (t->exec_id != task->self_exec_id) {
			if ((options & SEQUENCE) && !t->exec_id) /* the thread's first */
				t->gap = no_gap();
			t->exec_id = task->self_exec_id;
			cut(t, 0, m->time);
			t->stack.lo = t->stack.hi = 0;
		}
		stack = own_stack(&t->stack, task, sp);
		if (stack == STACK_OWN)
			prune(t, task, sp, m->time);
		if (options & USE_DEPTH)
			m->depth = depth_of(t);
	}
	if (STACK_FIRST) {
		wanted = open && counts_outermost(m) && test_entry(m);
		if (!wanted && !(options & USE_DEPTH))
			return false;
	}
	if (!t) {
		if (wanted)
			COUNT_CALL(unstored);
		goto out;
	}
	if (stack == STACK_FOREIGN) {
		if (wanted)
			COUNT_CALL(foreign);
		goto out;
	}
	if (stack == STACK_UNKNOWN) {
		if (wanted)
			COUNT_CALL(unchecked);
		goto out;
	}
	n = t->n;
	struct uprobe_task *utask = plain(task)->utask;
	if (n >= MAX_CALLS || (utask && utask->depth >= MAX_CALLS)) {
		if (wanted)
			COUNT_CALL(nesting);
		goto out;
	}
	struct call *c = &t->calls[n & MAX_CALLS_MASK];
	c->sp = sp;
	c->function = ID(cookie);
	c->wanted = wanted;
	note_caller(m, ctx, sp);
	keep(&c->m, m);
	c->number = n;
	keep_texts(task, n);
	t->n = n + 1;
	if (wanted)
		COUNT_ARMED(m);
	if (start)
		*start = m->start;
	armed = true;
out:
	if (!wanted)
		return armed;
	if (options & SEQUENCE)
		entered(ctx, sp, t ? &t->gap : NULL, m, armed);
	else if (!(options & AT_RETURN) && cover(m, before, false))
		emit(ctx, m, sp);
	return armed;
}

/*
 * leave handles a return. start is the start of the call if the kernel stored it, else 0.
 * It shows return traps that a forked child inherited.
 */
static __always_inline void leave(struct pt_regs *ctx, __u64 cookie, __u64 start)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (start && start < task->start_boottime) {
		if (targeted(cookie, task))
			COUNT_CALL(inherited);
		return;
	}
	struct thread *t = bpf_task_storage_get(&threads, task, NULL, 0);
	if (!t || t->exec_id != task->self_exec_id || is_closed())
		return;
	__u64 before = covered();
	__u64 now = bpf_ktime_get_boot_ns();
	struct moment *outer = NULL;
	struct call *c = take(t, ID(cookie), ctx->sp - 8, now, &outer);
	if (!c)
		return;
	if (!c->wanted) {
		spend(outer, now - c->m.start);
		return;
	}
	COUNT_RETURNED(&c->m);
	struct moment *m = &c->m;
	m->time = now;
	if (options & SEQUENCE)
		tell(ctx, 0, &t->gap, m, LEAVE);
	if (!(options & AT_RETURN))
		return;
	conclude(m, now);
	m->retval = ctx->ax;
	if (options & (USE_RESULT | USE_TEXTS))
		read_result(m, ctx, task, NULL, c->number);
	take_cost(m, task);
	if ((options & USE_NAMES) && (options & LATE_NAMES))
		read_names(m, task);
	if (settle(m) && test_return(m) && cover(m, before, true))
		emit(ctx, m, 0);
	spend(outer, m->duration);
}

SEC("uprobe.multi/x")
int function_entry(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct moment m = {};

	if (stands_by(cookie) || !admitted() || !targeted(cookie, bpf_get_current_task_btf()))
		return 0;
	count_hit(cookie);
	m.self = covered(); /* the frame has no room for it (note_owner), and a start has no self_time */
	look(&m, ctx, cookie, bpf_get_current_task_btf());
	if (context_words || recalls)
		note_owner(&m, ctx, cookie);
	if (test_entry(&m) && cover(&m, m.self, false))
		emit(ctx, &m, ctx->sp + SP_OFFSET(cookie));
	return 0;
}

SEC("uprobe.session/x")
int function_session(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u64 *start = bpf_session_cookie();

	if (bpf_session_is_return()) {
		if (TIMED)
			leave_timed(ctx, cookie, *start);
		else
			leave(ctx, cookie, *start);
		return 0;
	}
	/* 1 tells the kernel to leave the return address alone. */
	if (TIMED)
		return enter_timed(ctx, cookie, start) ? 0 : 1;
	return enter(ctx, cookie, start) ? 0 : 1;
}

SEC("uprobe.multi/x")
int pair_entry(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	enter(ctx, bpf_get_attach_cookie(ctx), NULL);
	return 0;
}

SEC("uretprobe.multi/x")
int pair_return(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	leave(ctx, bpf_get_attach_cookie(ctx), 0);
	return 0;
}

SEC("uprobe.multi/x")
int frame_entry(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	begin(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

SEC("uprobe.multi/x")
int frame_exit(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	end(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* At runtime.Goexit; of a context also at runtime.goexit1, where every goroutine ends. */
SEC("uprobe.multi/x")
int goroutine_end(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	drop_goroutine(ctx->r14);
	if (context)
		end_context(ctx->r14, 1);
	return 0;
}

/* At runtime.deferreturn. */
SEC("uprobe.multi/x")
int frame_landing(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	land(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* At _Unwind_SetIP. */
SEC("uprobe.multi/x")
int frame_unwinding(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	unwind(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* At longjmp. */
SEC("uprobe.multi/x")
int frame_jump(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	jump(ctx);
	return 0;
}

/* At an instruction that loads the stack pointer of another stack. */
SEC("uprobe.multi/x")
int frame_switch(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	switch_stack(ctx, bpf_get_attach_cookie(ctx));
	return 0;
}

/* At longjmp, where returns are trapped. */
SEC("uprobe.multi/x")
int call_jump(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread *t = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!t || t->exec_id != task->self_exec_id || is_closed())
		return 0;
	__u64 sp = jump_target(&t->stack, task, ctx->di);
	if (sp)
		cut(t, search_alive(t, sp), bpf_ktime_get_boot_ns());
	return 0;
}

SEC("raw_tp/sched_process_exit")
int thread_end(void *ctx)
{
	struct thread *t = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);

	if (t && !is_closed())
		cut(t, 0, bpf_ktime_get_boot_ns());
	free_ring();
	return 0;
}

SEC("raw_tp/sched_process_exit")
int frame_thread_end(void *ctx)
{
	drop_thread();
	drop_goroutines();
	free_ring();
	return 0;
}

/* At hotspot:method__entry, and python:function__entry. */
SEC("uprobe.multi/x")
int reported_entry(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	reported_enter(ctx);
	return 0;
}

/* At hotspot:method__return, and python:function__return. */
SEC("uprobe.multi/x")
int reported_return(struct pt_regs *ctx)
{
	OWN_FRAMES(ctx);
	reported_leave(ctx);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int reported_thread_end(void *ctx)
{
	reported_end();
	return 0;
}

/* TP_PROTO(struct task_struct *parent, struct task_struct *child); parent is this thread. */
SEC("raw_tp/sched_process_fork")
int process_began(__u64 *ctx)
{
	began((void *)ctx[1]);
	return 0;
}

SEC("raw_tp/sched_process_exit")
int process_ended(void *ctx)
{
	ended();
	return 0;
}
