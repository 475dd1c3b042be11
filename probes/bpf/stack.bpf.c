//go:build ignore

// SPDX-License-Identifier: GPL-2.0
/*
 * Samples of threads: user registers, and the top of the user stack.
 *
 * No thread is stopped. A running thread is sampled by on_cpu, which BPF_PROG_TEST_RUN
 * runs on its CPU in an interprocessor interrupt: its user registers are those that the
 * interrupt or the system call saved. All others are sampled by off_cpu, an iterator over
 * the threads of a process: their registers were saved when they left user mode. (The
 * saved registers of a running thread are stale when read from another CPU.)
 */
#include "bounds.h"
#include "inside.h"
#include "kernel.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "GPL";

#define PAGE 4096
#define RED_ZONE 128    /* below the stack pointer, in use by leaf functions */
#define MAX_PAGES 32    /* of a stack */
#define MAX_RETURNS 64  /* the kernel's own limit of nested return probes */

/* struct sample.flags */
enum {
	ON_CPU = 1,     /* taken while it ran */
	RUNNING = 2,    /* running: only on_cpu can sample it; no registers */
	UNCHANGED = 4,  /* has not run since the previous sample; no registers */
	TORN = 8,       /* ran while it was copied */
	COMPAT = 16,    /* in 32-bit code */
	INTERPRETED = 32, /* with the codes of the interpreter's frames, at the end of the record */
	CUT = 64,       /* not all of those could be read, or there are more */
	PLACED = 128,   /* with their places, which follow the codes */
};

struct sample {
	__u64 time;        /* boot clock, ns */
	__u64 start;       /* of the thread, boot clock, ns: with tid its identity */
	__u64 image;       /* changes when the process executes another program */
	__u64 regs[17];    /* as DWARF numbers them: rax rdx rcx rbx rsi rdi rbp rsp r8-r15 rip */
	__s64 syscall;     /* number; -1: in user mode */
	__u64 runtime;     /* ns on a CPU, as /proc/PID/task/TID/schedstat has it: updated at ticks */
	__u64 runs;        /* how often it was given a CPU, as the same file has it */
	__u64 trampoline;  /* the address that return probes put on the stack; 0: none */
	__u32 tgid, tid;
	__u32 state;       /* task_struct.__state */
	__u32 flags;
	__u32 returns;     /* how many struct taken follow */
	__u32 stack;       /* bytes of stack that follow those, from RED_ZONE below rsp up */
	__u32 codes;       /* how many codes of frames MAX_CODES words hold; with as many for their places they come last, before struct inside */
	__u32 contexts;    /* how many struct inside has, with which the record ends if contexts are read */
	char comm[16];
	__u64 top;         /* what the frames of those are counted down from; ELSEWHERE: the thread is on another stack */
};

/* A return address that a return probe has replaced. */
struct taken {
	__u64 at;       /* where it was on the stack */
	__u64 address;  /* what was there */
};

#define ELSEWHERE ~0ULL

#define MAX_CODES 512   /* of the interpreter's frames of a thread */
#define FRAME_WORDS 9   /* the part of such a frame that is read */
#define OWNED_BY_C 3    /* a frame that stands for a call from C and has no code */
#define NOWHERE 0xffff

/*
 * Where an interpreter keeps the frames of a thread; offsets are in bytes, NOWHERE if there is
 * no such thing. Frames are linked, or lie side by side, innermost first.
 */
struct interpreter {
	__u64 state;       /* the thread's state */
	__u64 id;          /* at state + id_at while it is this thread's */
	__u16 id_at;
	__u16 frame;       /* in the state: the innermost frame, or */
	__u16 inner;       /* what has it at this offset */
	__u16 code;        /* in a frame: identifies the function */
	__u16 previous;    /* in a frame: its caller */
	__u16 owner;       /* in a frame: a byte */
	__u16 place;       /* in a frame: the place in the function */
	__u16 method;      /* in a frame without code: what has the code METHOD_AT before its start */
	__u16 stack;       /* in what has the innermost frame: the memory at whose end the outermost lies, and its length in words */
	__u16 size;        /* of frames that lie in such memory; 0: frames are linked */
};

#define METHOD_AT 16

/* Where a Go program has the goroutine of a thread; offsets are in bytes. */
struct golang {
	__s64 slot;    /* of the current g, which may be one of the runtime, from the end of the thread-local data; 0: not known */
	__u32 m;       /* in a g: its thread, */
	__u32 current; /* and in that: its goroutine; 0: not known */
};

const struct sample *const type_sample __attribute__((unused)) = 0;
const struct taken *const type_taken __attribute__((unused)) = 0;
const struct interpreter *const type_interpreter __attribute__((unused)) = 0;
const struct golang *const type_golang __attribute__((unused)) = 0;
const struct inside *const type_inside __attribute__((unused)) = 0;
const struct elsewhere *const type_elsewhere __attribute__((unused)) = 0;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_entity {
	__u64 sum_exec_runtime;
};

struct sched_info___sampled {
	unsigned long pcount;
};

struct uprobe_task___sampled {
	struct return_instance *return_instances;
};

struct task_struct___sampled {
	unsigned int __state, flags;
	int on_cpu, pid, tgid;
	struct sched_entity se;
	struct sched_info___sampled sched_info;
	__u64 start_boottime, self_exec_id;
	unsigned long nvcsw, nivcsw;
	char comm[16];
	struct mm_struct *mm;
	struct uprobe_task___sampled *utask;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop

#define PF_EXITING 0x00000004
#define PF_KTHREAD 0x00200000
#define USER32_CS 0x23

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 23);
} samples SEC(".maps");

/* The processes that on_cpu samples. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u8);
} members SEC(".maps");

/* Bytes of a thread's stack to copy, by tid, where that differs from bytes_usual. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, __u32);
} bytes_of SEC(".maps");

/* The interpreters of threads, by tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 1 << 16);
	__type(key, __u32);
	__type(value, struct interpreter);
} interpreters SEC(".maps");

/* Go programs, by tgid, that do not have their g at the usual place, or of which more is known. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct golang);
} golangs SEC(".maps");

/* sum_exec_runtime of a thread at its previous sample. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, __u64);
} sampled SEC(".maps");

const volatile __u32 bytes_usual = 2 * PAGE;

/* Whether samples tell what the thread is inside of. */
const volatile bool contexts = false;
#define CONTEXT_BYTES (contexts ? sizeof(struct inside) : 0)

#define USUAL_SLOT -8 /* of Go's g */

static __always_inline void describe(struct sample *s, struct task_struct___sampled *t, struct pt_regs *r)
{
	s->time = bpf_ktime_get_boot_ns();
	s->start = t->start_boottime;
	s->image = t->self_exec_id;
	s->tgid = t->tgid;
	s->tid = t->pid;
	s->state = t->__state;
	s->runtime = t->se.sum_exec_runtime;
	s->runs = bpf_core_field_exists(t->sched_info.pcount) ? t->sched_info.pcount : 0;
	s->returns = s->stack = s->codes = 0;
	__builtin_memcpy(s->comm, t->comm, sizeof(s->comm));
	if (r->cs == USER32_CS)
		s->flags |= COMPAT;
	s->syscall = r->orig_ax;
	s->regs[0] = r->ax;
	s->regs[1] = r->dx;
	s->regs[2] = r->cx;
	s->regs[3] = r->bx;
	s->regs[4] = r->si;
	s->regs[5] = r->di;
	s->regs[6] = r->bp;
	s->regs[7] = r->sp;
	s->regs[8] = r->r8;
	s->regs[9] = r->r9;
	s->regs[10] = r->r10;
	s->regs[11] = r->r11;
	s->regs[12] = r->r12;
	s->regs[13] = r->r13;
	s->regs[14] = r->r14;
	s->regs[15] = r->r15;
	s->regs[16] = r->ip;
	s->trampoline = 0;
	struct mm_struct *mm = t->mm;
	if (mm && mm->uprobes_state.xol_area)
		s->trampoline = mm->uprobes_state.xol_area->vaddr;
}

/* write_taken writes the return addresses that return probes of t replaced, after the sample. */
static __always_inline __u32 write_taken(struct bpf_dynptr *d, struct task_struct___sampled *t)
{
	struct uprobe_task___sampled *u = t->utask;
	if (!u)
		return 0;
	struct return_instance *ri = u->return_instances;
	__u32 n = 0;
	for (int i = 0; i < MAX_RETURNS && ri; i++) {
		struct taken one = {ri->stack, ri->orig_ret_vaddr};
		if (bpf_dynptr_write(d, sizeof(struct sample) + i * sizeof(one), &one, sizeof(one), 0))
			break;
		n = i + 1;
		ri = ri->next;
	}
	return n;
}

/* The stack follows room for all return addresses. */
#define STACK_AT (sizeof(struct sample) + MAX_RETURNS * sizeof(struct taken))

/* reserve reserves a record for the thread of s with more bytes at its end; *bytes is set to the bytes of its stack to copy. */
static __always_inline bool reserve(struct sample *s, struct bpf_dynptr *d, __u32 *bytes, __u32 more)
{
	__u32 *wanted = bpf_map_lookup_elem(&bytes_of, &s->tid);
	__u32 n = wanted ? *wanted : bytes_usual;
	if (n > MAX_PAGES * PAGE)
		n = MAX_PAGES * PAGE;
	/* The verifier requires room for a whole page for each copy. */
	if (bpf_ringbuf_reserve_dynptr(&samples, STACK_AT + n + PAGE + more, 0, d)) {
		bpf_ringbuf_discard_dynptr(d, BPF_RB_NO_WAKEUP);
		return false;
	}
	*bytes = n;
	return true;
}

/*
 * COPY_STACK copies the stack by copy(to, bytes, from), page by page, and sets s->stack:
 * a copy fails as a whole if a page is missing.
 */
#define COPY_STACK(s, d, room, copy)                                      \
	do {                                                              \
		__u64 from = (s)->regs[7] - RED_ZONE;                     \
		__u64 got = 0, part = PAGE - (from & (PAGE - 1)), next;   \
		if (part > (room))                                        \
			part = (room);                                    \
		next = (room) - part; /* the rest, in whole pages */ \
		if (next > PAGE)                                          \
			next = PAGE;                                      \
		for (int i = 0; i <= MAX_PAGES && got < (room); i++) {    \
			void *to = bpf_dynptr_data(d, STACK_AT + got, PAGE); \
			AT_MOST(part, PAGE);                              \
			if (!to || copy(to, part, (void *)(from + got))) \
				break;                                    \
			got += part;                                      \
			part = next;                                      \
		}                                                         \
		(s)->stack = got;                                         \
	} while (0)

/* read_user reads memory of a thread: of the current one, or of one that waits. */
static __always_inline bool read_user(void *to, __u32 bytes, __u64 at, struct task_struct *task, bool waits)
{
	return !(waits ? bpf_copy_from_user_task(to, bytes, (void *)at, task, 0) : bpf_probe_read_user(to, bytes, (void *)at));
}

/*
 * find_inside returns what a thread is inside of, NULL: nothing, and sets s->top. A thread that
 * runs code of Go's runtime or of C for a goroutine is inside of what the goroutine is.
 */
static __always_inline struct inside *find_inside(struct sample *s, struct task_struct *task, bool waits)
{
	__u32 tgid = s->tgid;
	struct inside *in = inside_here(task);
	struct bounds stack;
	__u64 g = 0;

	if (in && in->n) {
		s->top = on_signal_stack(task, s->regs[7]) ? ELSEWHERE : 0;
		return in;
	}
	struct golang *go = bpf_map_lookup_elem(&golangs, &tgid);
	__s64 slot = go ? go->slot : USUAL_SLOT;
	if (!slot || !read_user(&g, sizeof(g), task->thread.fsbase + slot, task, waits) || !g)
		return NULL;
	in = inside_elsewhere(g, tgid, true);
	if (!in && go && go->current) {
		if (!read_user(&g, sizeof(g), g + go->m, task, waits) || !read_user(&g, sizeof(g), g + go->current, task, waits) || !g)
			return NULL;
		in = inside_elsewhere(g, tgid, true);
	}
	if (!in)
		return NULL;
	s->top = ELSEWHERE;
	if (read_user(&stack, sizeof(stack), g, task, waits) && stack.lo <= s->regs[7] && s->regs[7] < stack.hi)
		s->top = stack.hi;
	return in;
}

/* write_inside writes what the thread is inside of at byte at of the record. */
static __always_inline void write_inside(struct sample *s, struct bpf_dynptr *d, __u32 at, struct task_struct *task, bool waits)
{
	struct inside *in = contexts ? find_inside(s, task, waits) : NULL;

	if (in) {
		s->contexts = in->n;
		bpf_dynptr_write(d, at, in, sizeof(*in), 0);
	}
}

SEC("iter.s/task")
int off_cpu(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	if (!task)
		return 0;
	struct task_struct___sampled *t = (void *)task;
	if (t->flags & (PF_KTHREAD | PF_EXITING))
		return 0;

	struct sample s = {};
	__u64 runtime = t->se.sum_exec_runtime;
	unsigned long switches = t->nvcsw + t->nivcsw;
	__u64 *last = bpf_task_storage_get(&sampled, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (t->on_cpu)
		s.flags = RUNNING;
	else if (last && *last == runtime)
		s.flags = UNCHANGED;
	if (s.flags) {
		s.time = bpf_ktime_get_boot_ns();
		s.start = t->start_boottime;
		s.state = t->__state;
		s.tgid = t->tgid;
		s.tid = t->pid;
		/* Returning 1 makes the kernel retry this thread after the reader has
		 * made room. */
		return bpf_ringbuf_output(&samples, &s, sizeof(s), BPF_RB_NO_WAKEUP) != 0;
	}
	describe(&s, t, (struct pt_regs *)bpf_task_pt_regs(task));

	struct bpf_dynptr d;
	__u32 room;
	if (!reserve(&s, &d, &room, CONTEXT_BYTES))
		return 1;
	s.returns = write_taken(&d, t);
#define copy(to, bytes, from) bpf_copy_from_user_task(to, bytes, from, task, 0)
	COPY_STACK(&s, &d, room, copy);
#undef copy
	write_inside(&s, &d, STACK_AT + room + PAGE, task, true);
	if (t->on_cpu || t->se.sum_exec_runtime != runtime || t->nvcsw + t->nivcsw != switches)
		s.flags |= TORN;
	else if (last)
		*last = runtime;
	bpf_dynptr_write(&d, 0, &s, sizeof(s), 0);
	bpf_ringbuf_submit_dynptr(&d, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline bool read_word(__u64 *word, __u64 at)
{
	return bpf_probe_read_user(word, sizeof(*word), (void *)at) == 0;
}

/* frame_word returns the word of a frame that has the byte at an offset. */
static __always_inline __u64 frame_word(__u64 *words, __u32 at)
{
	at = at / 8 * 8;
	AT_MOST(at, (FRAME_WORDS - 1) * 8);
	return *(__u64 *)((char *)words + at);
}

/* The walk over the frames of an interpreter. */
struct walk {
	struct interpreter *in;
	struct bpf_dynptr *to;
	__u64 frame, end;  /* end: of the memory where frames lie side by side */
	__u32 at;          /* where codes go in the record */
	__u32 n;
	bool torn;         /* a frame could not be read */
	__u64 words[FRAME_WORDS];
};

/* write_code writes the code of a frame, and its place. It returns 1 after the last frame. */
static long write_code(__u64 i, struct walk *w)
{
	struct interpreter *in = w->in;
	__u64 one, place;

	if (!w->frame || (in->size && w->frame >= w->end))
		return 1;
	__u32 size = in->size ?: sizeof(w->words);
	AT_MOST(size, sizeof(w->words));
	if (bpf_probe_read_user(w->words, size, (void *)w->frame)) {
		w->torn = true;
		return 1;
	}
	one = frame_word(w->words, in->code);
	if (!one && in->method != NOWHERE && !read_word(&one, frame_word(w->words, in->method) - METHOD_AT)) {
		w->torn = true;
		return 1;
	}
	if (one && (in->owner == NOWHERE || (frame_word(w->words, in->owner) >> in->owner % 8 * 8 & 0xff) != OWNED_BY_C)) {
		__u32 n = w->n;
		AT_MOST(n, MAX_CODES - 1);
		bpf_dynptr_write(w->to, w->at + n * sizeof(one), &one, sizeof(one), 0);
		if (in->place != NOWHERE) {
			place = frame_word(w->words, in->place);
			bpf_dynptr_write(w->to, w->at + (MAX_CODES + n) * sizeof(place), &place, sizeof(place), 0);
		}
		w->n = n + 1;
	}
	w->frame = in->size ? w->frame + size : frame_word(w->words, in->previous);
	return 0;
}

/*
 * write_codes writes the codes of the frames of the current thread's interpreter, and their places, at byte at of the
 * record. The thread is interrupted, so its frames do not change.
 */
static __always_inline void write_codes(struct sample *s, struct bpf_dynptr *d, __u32 at, struct interpreter *in)
{
	struct walk w = {.in = in, .to = d, .at = at};
	__u64 id, holder = in->state, words;

	if (!read_word(&id, in->state + in->id_at) || id != in->id)
		return;
	s->flags |= INTERPRETED | CUT;
	if (in->place != NOWHERE)
		s->flags |= PLACED;
	if (!read_word(&w.frame, in->state + in->frame))
		return;
	if (in->inner != NOWHERE && w.frame) {
		holder = w.frame;
		if (!read_word(&w.frame, holder + in->inner))
			return;
	}
	if (in->size) {
		if (!read_word(&w.end, holder + in->stack) || !read_word(&words, holder + in->stack + 8) || w.frame < w.end)
			return;
		w.end += words * 8;
		if (w.frame > w.end)
			return;
	}
	bpf_loop(MAX_CODES, write_code, &w, 0);
	s->codes = w.n;
	if (!w.torn && (!w.frame || (in->size && w.frame >= w.end)))
		s->flags &= ~CUT;
}

/* Returns 0 if the current thread is not of a sampled process, 1 if it was sampled, 2 if there was no room. */
SEC("raw_tp")
int on_cpu(void *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct task_struct___sampled *t = (void *)task;
	__u32 tgid = t->tgid;
	if (t->flags & (PF_KTHREAD | PF_EXITING) || !bpf_map_lookup_elem(&members, &tgid))
		return 0;

	struct sample s = {.flags = ON_CPU};
	describe(&s, t, (struct pt_regs *)bpf_task_pt_regs(task));
	struct bpf_dynptr d;
	__u32 room;
	struct interpreter *in = bpf_map_lookup_elem(&interpreters, &s.tid);
	__u32 more = in ? MAX_CODES * sizeof(__u64) : 0;
	if (in && in->place != NOWHERE)
		more *= 2;
	if (!reserve(&s, &d, &room, more + CONTEXT_BYTES))
		return 2;
	s.returns = write_taken(&d, t);
	COPY_STACK(&s, &d, room, bpf_probe_read_user);
	if (in)
		write_codes(&s, &d, STACK_AT + room + PAGE, in);
	write_inside(&s, &d, STACK_AT + room + PAGE + more, task, false);
	bpf_dynptr_write(&d, 0, &s, sizeof(s), 0);
	bpf_ringbuf_submit_dynptr(&d, BPF_RB_NO_WAKEUP);
	return 1;
}
