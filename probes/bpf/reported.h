/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Calls that a virtual machine or an interpreter reports itself: Java's methods, by
 * HotSpot's own probes (hotspot:method__entry and hotspot:method__return,
 * src/hotspot/share/runtime/sharedRuntime.cpp), and Python's functions, by those of CPython
 * (python:function__entry and python:function__return, Python/ceval.c), which are called
 * methods here, too. The probes fire at each entry and each exit, also by an exception, with
 * the addresses of texts that name the method: HotSpot has class, name and signature with
 * their lengths, CPython a file and a name that end with a zero byte.
 *
 * A method is identified by these addresses and a hash of the texts, as the texts of another
 * method may replace them when a class is unloaded. The texts are sent once, when a method is
 * first seen; user space then says whether the method is selected. Until then its calls are.
 *
 * Entry and return are paired by method: of a thread's calls of one method the last one
 * returns first. A return without a call on the stack began before the probe was attached.
 *
 * A virtual thread (JDK 21) can leave its carrier thread in the middle of its calls and
 * continue on another one, and no probe says so. For threads that carry virtual threads,
 * known by their calls of Continuation.run, entries are reported, and what needs returns
 * is counted as lost (including calls of methods not yet known to be unselected).
 */
#ifndef ENDOSCOPE_REPORTED_H
#define ENDOSCOPE_REPORTED_H

#include "aggregate.h"
#include "entry.h"
#include "gate.h"
#include "generation.h"
#include "sequence.h"
#include "target.h"

#define CLASS_BYTES 384 /* powers of two times three; longer names are cut */
#define METHOD_BYTES 128
#define SIGNATURE_BYTES 384

struct method_key {
	__u64 class, name, signature;
	__u32 pid;
	__u16 class_length, name_length;
	__u64 hash; /* of the last bytes of class and name, and the signature's length */
};

/* Whether the probes are CPython's: the file is in place of the class. */
const volatile bool python = false;

/* Whether only returns are probed. Each is an event by itself, since its entry is not known. */
const volatile bool only_returns = false;

#define HASHED_BYTES 32 /* of the end of a text, which distinguishes more than the package names before it; the stack is small */

/* In place of a function id: the event defines a method. */
#define DEFINES 0xffffffff

struct event_method {
	struct event e;
	struct method_key key;
	__u32 id;
	__u32 signature_length;
	char class[CLASS_BYTES], name[METHOD_BYTES], signature[SIGNATURE_BYTES];
};

/* The calls of a method are not wanted. */
#define UNWANTED (1U << 31)

#define METHODS (1 << 18) /* the most methods, and so the highest number: maxMethods in package uprobe */

/* The numbers of methods, from 1, by name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, METHODS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct method_key);
	__type(value, __u32);
} methods SEC(".maps");

__u32 methods_known = 0;

#define REPORTED_CALLS 1024
#define REPORTED_CALLS_MASK (REPORTED_CALLS - 1)

struct reported_call {
	__u64 start;
	__u32 method;
	__u32 wanted;
};

struct reported_thread {
	__u64 exec_id;
	__u32 n; /* may exceed REPORTED_CALLS: calls further in are only counted */
	__u32 gap;
	__u32 carries, unused; /* virtual threads */
	struct reported_call calls[REPORTED_CALLS];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct reported_thread);
} reported_threads SEC(".maps");

/* Where the length of a text of CPython is found out, by the thread. */
struct text {
	char bytes[CLASS_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct text);
} measured SEC(".maps");

/* READ_TEXT reads a name of length bytes, which is not terminated. */
#define READ_TEXT(to, length, from)                                         \
	do {                                                                \
		__u32 n_ = (length);                                        \
		if (n_ > sizeof(to))                                        \
			n_ = sizeof(to);                                    \
		if (bpf_probe_read_user(to, n_, (void *)(from)))            \
			COUNT_CALL(unreadable);                             \
	} while (0)

/* define assigns a number to a method and sends its names; 0: there was no room. */
static __noinline __u32 define(const struct method_key *key, __u32 signature_length)
{
	/* Send nothing for methods beyond the limit. */
	if (methods_known >= METHODS) {
		COUNT_CALL(undefined);
		return 0;
	}
	struct event_method *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e) {
		COUNT_CALL(lost);
		return 0;
	}
	__u32 id = __sync_fetch_and_add(&methods_known, 1) + 1;
	if (id > METHODS) { /* other CPUs took the last numbers */
		bpf_ringbuf_discard(e, BPF_RB_NO_WAKEUP);
		COUNT_CALL(undefined);
		return 0;
	}
	__builtin_memset(e, 0, sizeof(*e));
	e->e.function = DEFINES;
	e->e.query = query;
	e->e.pid = key->pid;
	e->key = *key;
	e->id = id;
	e->signature_length = signature_length;
	READ_TEXT(e->class, key->class_length, key->class);
	READ_TEXT(e->name, key->name_length, key->name);
	READ_TEXT(e->signature, signature_length, key->signature);
	submit(e);
	/* Inserted after submitting, so that events with the number follow the definition. */
	if (bpf_map_update_elem(&methods, key, &id, BPF_NOEXIST)) {
		__u32 *other = bpf_map_lookup_elem(&methods, key);
		if (other)
			return *other; /* another thread was faster */
		COUNT_CALL(undefined); /* out of memory */
		return 0;
	}
	return id;
}

/* hash_end adds the end of a text to a hash (FNV-1a, by words). Unreadable bytes count as zeros. */
static __always_inline __u64 hash_end(__u64 hash, __u64 text, __u32 length)
{
	__u64 words[HASHED_BYTES / 8] = {};
	__u32 n = length < HASHED_BYTES ? length : HASHED_BYTES;

	bpf_probe_read_user(words, n, (void *)(text + length - n));
	for (int i = 0; i < HASHED_BYTES / 8; i++) {
		hash = (hash ^ words[i]) * 0x100000001b3ULL;
		hash ^= hash >> 32; /* mix the upper bytes into the lower ones */
	}
	return hash;
}

static __noinline __u64 hash_texts(const struct method_key *key, __u32 signature_length)
{
	__u64 hash = hash_end(0xcbf29ce484222325ULL ^ signature_length, key->class, key->class_length);

	return hash_end(hash, key->name, key->name_length);
}

/* length_of returns the length of a text that ends with a zero byte; 0: it is unreadable. */
static __always_inline __u32 length_of(char *buffer, __u32 size, __u64 text)
{
	long n = bpf_probe_read_user_str(buffer, size, (void *)text);

	return n > 0 ? n - 1 : 0;
}

/* read_python_key reads the function of a probe of CPython. Returns whether it can be read. */
static __noinline bool read_python_key(struct method_key *key)
{
	struct text *t = bpf_task_storage_get(&measured, bpf_get_current_task_btf(), NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!t) {
		COUNT_CALL(unstored);
		return false;
	}
	key->class_length = length_of(t->bytes, CLASS_BYTES, key->class);
	key->name_length = length_of(t->bytes, METHOD_BYTES, key->name);
	if (!key->class_length || !key->name_length) {
		COUNT_CALL(unreadable);
		return false;
	}
	key->hash = hash_texts(key, 0);
	return true;
}

/* read_key reads the method of a probe, and the length of its signature. Returns whether
 * the method is known. */
static __always_inline bool read_key(struct method_key *key, __u32 *signature_length, const struct pt_regs *ctx, __u64 cookie)
{
	__u64 args[ARGS] = {};

	read_operands(args, ctx, ID(cookie));
	key->pid = bpf_get_current_pid_tgid() >> 32;
	key->class = args[0];
	if (python) {
		key->name = args[1];
		return read_python_key(key);
	}
	key->class_length = args[1];
	key->name = args[2];
	key->name_length = args[3];
	key->signature = args[4];
	*signature_length = args[5];
	key->hash = hash_texts(key, args[5]);
	return true;
}

#define FOUR(a, b, c, d) ((__u32)(a) | (b) << 8 | (c) << 16 | (__u32)(d) << 24)

/* mounts reports whether the method is jdk.internal.vm.Continuation.run, which runs
 * virtual threads. */
static __always_inline bool mounts(const struct method_key *key)
{
	__u32 class[7], name = 0;

	return !python && key->class_length == sizeof(class) && key->name_length == 3 &&
	       !bpf_probe_read_user(class, sizeof(class), (void *)key->class) &&
	       !bpf_probe_read_user(&name, 3, (void *)key->name) && name == FOUR('r', 'u', 'n', 0) &&
	       class[0] == FOUR('j', 'd', 'k', '/') && class[1] == FOUR('i', 'n', 't', 'e') &&
	       class[2] == FOUR('r', 'n', 'a', 'l') && class[3] == FOUR('/', 'v', 'm', '/') &&
	       class[4] == FOUR('C', 'o', 'n', 't') && class[5] == FOUR('i', 'n', 'u', 'a') &&
	       class[6] == FOUR('t', 'i', 'o', 'n');
}

static __always_inline struct reported_thread *reported_thread_of(struct task_struct *task, bool create)
{
	struct reported_thread *t = bpf_task_storage_get(&reported_threads, task, NULL, create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);

	if (t && t->exec_id != task->self_exec_id) {
		t->exec_id = task->self_exec_id;
		t->n = 0;
		t->carries = 0;
		if ((options & SEQUENCE) && began_unseen(task, 0))
			t->gap = 1;
	}
	return t;
}

static __always_inline void describe_call(struct moment *m, struct task_struct *task, __u32 method)
{
	__u64 id = bpf_get_current_pid_tgid();

	m->cookie = method & ID(~0);
	m->pid = id >> 32;
	m->tid = (__u32)id;
	if (options & USE_NAMES)
		read_names(m, task);
}

/* Calls whose return was not seen. */
struct reported_abandoned {
	struct reported_thread *t;
	struct moment *m;
	__u32 n;
};

static long step_abandoned(__u32 i, void *ctx)
{
	struct reported_abandoned *a = ctx;

	if (a->t->n <= a->n)
		return 1;
	a->t->n--;
	struct reported_call *c = &a->t->calls[a->t->n & REPORTED_CALLS_MASK];
	if (!c->wanted)
		return 0;
	a->m->cookie = c->method;
	a->m->start = c->start;
	a->m->depth = a->t->n;
	tell(NULL, 0, &a->t->gap, a->m, UNWIND);
	return 0;
}

/* reported_cut removes all but the first n calls of t. */
static __always_inline void reported_cut(struct reported_thread *t, struct moment *m, __u32 n)
{
	if ((options & SEQUENCE) && t->n > n) {
		struct reported_abandoned a = {.t = t, .m = m, .n = n};
		bpf_loop(REPORTED_CALLS, step_abandoned, &a, 0);
	}
	t->n = n;
}

/* java_carries records that the thread carries virtual threads: the owner of its calls is
 * not known from now on. */
static __noinline void java_carries(struct task_struct *task)
{
	struct reported_thread *t = reported_thread_of(task, true);

	if (!t || t->carries)
		return;
	t->carries = 1;
	struct moment *m = new_moment(task);
	if (!m) {
		t->n = 0;
		return;
	}
	describe_call(m, task, 0);
	m->time = bpf_ktime_get_boot_ns();
	reported_cut(t, m, 0);
}

static __always_inline void reported_enter(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct method_key key = {};

	if (stands_by(cookie) || !admitted() || !targeted(cookie, task) || is_closed())
		return;
	count_hit(cookie);
	__u64 before = covered();
	__u32 signature_length = 0;
	if (!read_key(&key, &signature_length, ctx, cookie))
		return;
	bool nests = !only_returns && (options & (AT_RETURN | SEQUENCE | USE_DEPTH));
	if (nests && mounts(&key))
		java_carries(task);
	__u32 *known = bpf_map_lookup_elem(&methods, &key);
	__u32 method = known ? *known : define(&key, signature_length);
	if (!method || (method & UNWANTED))
		return;
	struct moment *m = new_moment(task);
	if (!m) {
		COUNT_CALL(unstored);
		return;
	}
	describe_call(m, task, method);
	m->time = m->start = bpf_ktime_get_boot_ns();
	if (!nests) {
		if (test_entry(m) && (!only_returns || test_return(m)) && cover(m, before, only_returns))
			emit(ctx, m, 0);
		return;
	}
	struct reported_thread *t = reported_thread_of(task, true);
	if (t && t->carries) {
		if (test_entry(m))
			COUNT_CALL(carried);
		return;
	}
	bool followed = t && t->n < REPORTED_CALLS;
	if (t)
		m->depth = t->n;
	bool wanted = test_entry(m);
	if (t)
		t->n++;
	if (followed) {
		struct reported_call *c = &t->calls[(t->n - 1) & REPORTED_CALLS_MASK];
		c->start = m->start;
		c->method = m->cookie;
		c->wanted = wanted;
	}
	if (!wanted)
		return;
	if (!t)
		COUNT_CALL(unstored);
	else if (!followed)
		COUNT_CALL(nesting);
	else
		COUNT_ARMED(m);
	if (options & SEQUENCE)
		entered(NULL, 0, t ? &t->gap : NULL, m, followed);
	else if (!(options & AT_RETURN) && cover(m, before, false))
		emit(ctx, m, 0);
}

struct reported_search {
	struct reported_thread *t;
	__u32 method, n;
};

/* Goes down from call n to the last one of the method. Returns 1 to stop. */
static long step_reported(__u32 i, void *ctx)
{
	struct reported_search *s = ctx;

	if (!s->n || s->t->calls[(s->n - 1) & REPORTED_CALLS_MASK].method == s->method)
		return 1;
	s->n--;
	return 0;
}

static __always_inline void reported_leave(struct pt_regs *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	struct method_key key = {};

	if (!(options & (AT_RETURN | SEQUENCE | USE_DEPTH)) || is_closed())
		return;
	struct reported_thread *t = reported_thread_of(task, false);
	if (!t || !t->n || !targeted(cookie, task))
		return;
	__u32 signature_length = 0;
	if (!read_key(&key, &signature_length, ctx, cookie))
		return;
	if (mounts(&key)) {
		java_carries(task);
		return;
	}
	__u32 *known = bpf_map_lookup_elem(&methods, &key);
	if (!known)
		return;
	__u32 method = *known & ID(~0), n = t->n;
	__u64 before = covered();
	if (n > REPORTED_CALLS) {
		if (!(*known & UNWANTED))
			t->n = n - 1;
		return;
	}
	if (t->calls[(n - 1) & REPORTED_CALLS_MASK].method != method) {
		struct reported_search s = {.t = t, .method = method, .n = n};
		if (*known & UNWANTED) /* unselected: the call was only stored if its method was not known then */
			return;
		bpf_loop(REPORTED_CALLS, step_reported, &s, 0);
		if (!s.n)
			return;
		n = s.n;
	}
	struct moment *m = new_moment(task);
	if (!m) {
		t->n = n - 1;
		t->gap = 1;
		COUNT_CALL(unstored);
		return;
	}
	describe_call(m, task, method);
	m->time = bpf_ktime_get_boot_ns();
	if (t->n > n)
		reported_cut(t, m, n);
	t->n = n - 1;
	struct reported_call *c = &t->calls[(n - 1) & REPORTED_CALLS_MASK];
	if (!c->wanted)
		return;
	m->cookie = method;
	m->start = c->start;
	m->depth = n - 1;
	COUNT_RETURNED(m);
	if (options & SEQUENCE)
		tell(NULL, 0, &t->gap, m, LEAVE);
	if (!(options & AT_RETURN))
		return;
	m->duration = m->time - m->start;
	if (test_return(m) && cover(m, before, true))
		emit(ctx, m, 0);
}

static __always_inline void reported_end(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct reported_thread *t = bpf_task_storage_get(&reported_threads, task, NULL, 0);

	if (!t || !t->n || is_closed())
		return;
	struct moment *m = new_moment(task);
	if (!m)
		return;
	describe_call(m, task, 0);
	m->time = bpf_ktime_get_boot_ns();
	reported_cut(t, m, 0);
}

#endif
