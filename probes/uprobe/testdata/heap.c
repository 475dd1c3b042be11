/*
 * Does with memory all that C, and C++ if it is compiled as such, has functions
 * for, and says itself what that was: a line for each block it was given (+) or
 * gave back (-), a line for each call of a function of the library that allocates
 * within (~: its result has at least so many bytes), in the order of each thread.
 * and of one that releases what it has allocated (!). Lines begin with process and
 * thread; from the first allocation, of 4242 bytes, to "end" there is nothing else.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __cplusplus
#include <new>
#endif
#define NOINLINE __attribute__((noinline, noclone))

enum { THREADS = 4, LINES = 4096 };
struct entry { char op; const char *name; void *address; long size; };
struct history { int tid, n; struct entry entries[LINES]; };
static struct history histories[THREADS + 2];
static __thread struct history *mine;

static void says(char op, const char *name, void *address, long size)
{
	if (mine->n == LINES)
		abort();
	struct entry e = { op, name, address, size };
	mine->entries[mine->n++] = e;
}

/* tells writes what threads said, by nothing that allocates. */
static void tells(void)
{
	char line[200];
	for (int h = 0; h < THREADS + 2; h++)
		for (int i = 0; i < histories[h].n; i++) {
			struct entry *e = &histories[h].entries[i];
			int n = snprintf(line, sizeof line, "%d\t%d\t%c\t%s\t%ld\t%ld\n", getpid(), histories[h].tid, e->op, e->name, (long)e->address, e->size);
			if (write(1, line, n) != n)
				_exit(9);
		}
}

/* Of each thread: another one's address here would be freed twice. */
static __thread void *volatile hidden;
static int throws;
static void *opaque(void *p) { hidden = p; return hidden; }

/* got and gave are one call each. What failed was none. */
static void *got(const char *name, long size, void *p)
{
	if (p) {
		memset(p, 1, size);
		says('+', name, p, size);
	}
	return opaque(p);
}
#define gives(name, p, call) do { void *given = opaque(p); if (given) says('-', name, given, -1); call; } while (0)
#define gives_sized(name, p, size, call) do { void *given = opaque(p); if (given) says('-', name, given, size); call; } while (0)

/* resizes is realloc: both, if it did anything. */
static void *resized(const char *name, void *old, void *p, long size)
{
	if (!p && size)
		return old;
	if (old)
		says('-', name, old, -1);
	return got(name, size, p);
}

static void plain(int n)
{
	char *a = (char *)got("malloc", n, malloc(n)), *b = (char *)got("calloc", 3 * n, calloc(3, n));
	a = (char *)resized("realloc", a, realloc(a, n + 1), n + 1);             /* in place */
	a = (char *)resized("realloc", a, realloc(a, 300000 + n), 300000 + n);   /* elsewhere */
	a = (char *)resized("realloc", a, realloc(a, 5000000 + n), 5000000 + n); /* pages of its own */
	a = (char *)resized("realloc", a, realloc(a, 16), 16);
	b = (char *)resized("reallocarray", b, reallocarray(b, 4, n), 4 * n);
	char *c = (char *)resized("realloc", NULL, realloc(NULL, n), n);
	char *d = (char *)got("malloc", 0, malloc(0)), *e = (char *)got("calloc", 0, calloc(0, n));
	gives("free", NULL, free(NULL));
	gives("free", c, free(c));
	c = (char *)got("malloc", n, malloc(n)); /* where it was, likely */
	char *z = (char *)realloc(opaque(c), 0);
	says('-', "realloc", c, -1);
	if (z)
		got("realloc", 0, z);
	gives("free", z, free(z));
	gives("free", a, free(a));
	gives("free", b, free(b));
	gives("free", d, free(d));
	gives("free", e, free(e));
}

static void aligned(int n)
{
	void *a = NULL;
	if (posix_memalign(&a, 256, n))
		_exit(3);
	got("posix_memalign", n, a);
	void *b = got("aligned_alloc", 64 * n, aligned_alloc(64, 64 * n));
#ifdef __GLIBC__
	void *c = got("memalign", n, memalign(128, n)), *d = got("valloc", n, valloc(n));
	gives("free", c, free(c));
	gives("free", d, free(d));
#ifndef __cplusplus /* jemalloc has none */
	void *e = got("pvalloc", n, pvalloc(n));
	gives("free", e, free(e));
#endif
#endif
	gives("free", a, free(a));
	gives("free", b, free(b));
}

static void fails(int n)
{
	volatile size_t most = PTRDIFF_MAX, more = SIZE_MAX / 2, half = (size_t)1 << 32;
	void *p = got("malloc", n, malloc(n)), *q = NULL;
	if (malloc(most) || calloc(more, 4) || realloc(p, most) || !posix_memalign(&q, 3, n) || !posix_memalign(&q, 64, most) || aligned_alloc(64, most))
		_exit(4);
	/* The product is 0, as the machine has it. */
	if (reallocarray(p, half, half) || calloc(half, half))
		_exit(5);
	gives("free", p, free(p));
}

/* What the library allocates for itself or its caller. */
static void within(int n)
{
	char text[300];
	memset(text, 'x', sizeof text);
	text[n] = 0;
	char *a = strdup(text);
	says('~', "strdup", a, n + 1);
	char *b = strndup(text, n / 2);
	says('~', "strndup", b, n / 2 + 1);
	char *c;
	if (asprintf(&c, "%s and %s", text, text) < 0)
		_exit(6);
	says('~', "asprintf", c, 2 * n + 6);
	gives("free", a, free(a));
	gives("free", b, free(b));
	gives("free", c, free(c));
#ifndef STATIC_ONLY
	FILE *f = fopen("/proc/self/status", "r");
	says('~', "fopen", f, 1);
	char *line = NULL;
	size_t size = 0;
	if (getdelim(&line, &size, 0, f) < 300)
		_exit(7);
	says('~', "getdelim", line, size);
	/* Whatever it used to read is released with it. */
	fclose(f);
	says('!', "fclose", f, 0);
	gives("free", line, free(line));
#endif
}

#ifdef __cplusplus
struct Thing { long a[4]; virtual ~Thing() { hidden = this; } };
struct alignas(128) Wide { char a[256]; };

static void operators(int n)
{
	/* Called as functions, so that nothing is elided. */
	void *a = got("operator new", n, ::operator new(n)), *b = got("operator new[]", n, ::operator new[](n));
	void *c = got("operator new", n, ::operator new(n, std::nothrow)), *d = got("operator new[]", n, ::operator new[](n, std::nothrow));
	void *e = got("operator new,128", n, ::operator new(n, std::align_val_t(128))), *f = got("operator new[],256", n, ::operator new[](n, std::align_val_t(256)));
	void *g = got("operator new,64", n, ::operator new(n, std::align_val_t(64), std::nothrow));
	gives("operator delete", a, ::operator delete(a));
	gives("operator delete[]", b, ::operator delete[](b));
	gives_sized("operator delete", c, n, ::operator delete(c, (size_t)n));
	gives_sized("operator delete[]", d, n, ::operator delete[](d, (size_t)n));
	gives("operator delete", e, ::operator delete(e, std::align_val_t(128)));
	gives_sized("operator delete[]", f, n, ::operator delete[](f, (size_t)n, std::align_val_t(256)));
	gives("operator delete", g, ::operator delete(g, std::nothrow));
	volatile size_t most = PTRDIFF_MAX;
	if (::operator new(most, std::nothrow))
		_exit(5);
	for (int i = 0; throws && i < 4; i++)
		try {
			hidden = i == 0 ? ::operator new(most) : i == 1 ? ::operator new[](most) :
				i == 2 ? ::operator new(most, std::align_val_t(64)) : ::operator new[](most, std::align_val_t(64));
			_exit(5);
		} catch (std::bad_alloc &) {
		}
	says('!', "exceptions that say so", NULL, 0);
	Thing *t = new Thing;
	says('+', "operator new", t, sizeof(Thing));
	says('-', "operator delete", t, sizeof(Thing));
	delete t;
	Wide *w = new Wide[3];
	says('+', "operator new[],128", w, 3 * sizeof(Wide));
	says('-', "operator delete[]", w, -1);
	delete[] w;
}
static struct Early { Early(); } early;
Early::Early() { hidden = ::operator new(7777); ::operator delete(hidden); }
#endif

__attribute__((constructor)) static void before_main(void) { free(opaque(malloc(5555))); }

/* A thread's last allocation is that of a destructor of its own. */
static pthread_key_t key;
static pthread_barrier_t all;
/* Threads end one after the other, when no other allocates: mimalloc 2.0.9 may read a segment
 * that another thread has unmapped then (microsoft/mimalloc#759). */
static pthread_barrier_t turns[THREADS];
static void leaves(void *p)
{
	gives("free", p, free(p));
	void *q = got("malloc", 99, malloc(99));
	gives("free", q, free(q));
	says('.', "end", NULL, 0);
}

static void works(int n)
{
	plain(n);
	aligned(n);
	fails(n);
	within(n);
#ifdef __cplusplus
	operators(n);
#endif
}

static void begins(struct history *h)
{
	mine = h;
	h->tid = syscall(SYS_gettid);
	h->n = 0;
}

static void *thread(void *p)
{
	struct history *h = (struct history *)p;
	begins(h);
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all); /* until the child is over */
	void *first = malloc(4242);
	got("malloc", 4242, first);
	for (int i = 0; i < 4; i++)
		works(20 + 23 * i);
	gives("free", first, free(first));
	void *last = got("malloc", 77, malloc(77));
	pthread_setspecific(key, last);
	pthread_barrier_wait(&turns[h - histories]);
	return NULL;
}

int main(int argc, char **argv)
{
	throws = argc > 1;
	char line[16];
	static char in[64], out[4096];
	setvbuf(stdin, in, _IOFBF, sizeof in);
	setvbuf(stdout, out, _IOFBF, sizeof out);
	pthread_key_create(&key, leaves);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 9;
	pthread_t threads[THREADS];
	pthread_barrier_init(&all, NULL, THREADS + 1);
	for (int i = 0; i < THREADS; i++) {
		pthread_barrier_init(&turns[i], NULL, 2);
		pthread_create(&threads[i], NULL, thread, &histories[i]);
	}
	pthread_barrier_wait(&all);
	begins(&histories[THREADS]);
	void *first = malloc(4242);
	got("malloc", 4242, first);
	works(50);
	/* A child has what its parent has, and goes on with it. */
	int child = fork();
	if (!child) {
		struct history *h = &histories[THREADS + 1];
		begins(h);
		void *mark = malloc(4242);
		got("malloc", 4242, mark);
		works(60);
		gives("free", first, free(first));
		gives("free", mark, free(mark));
		says('.', "end", NULL, 0);
		for (int i = 0; i <= THREADS; i++)
			histories[i].n = 0;
		tells();
		_exit(0);
	}
	gives("free", first, free(first));
	says('.', "end", NULL, 0);
	waitpid(child, NULL, 0);
	pthread_barrier_wait(&all);
	for (int i = 0; i < THREADS; i++) {
		pthread_barrier_wait(&turns[i]);
		pthread_join(threads[i], NULL);
	}
	tells();
	return 0;
}
