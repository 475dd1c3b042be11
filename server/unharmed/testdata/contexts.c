// Coroutines on stacks of their own: swapcontext, with stacks on the heap, in
// mappings beside the threads' own stacks, in the thread's own stack; resumed
// by other threads.
//
// stacks: other than the threads' own
// build: -O1 -pthread
// more: -O2 -pthread -s
// more: -O1 -pthread -static
#include "suite.h"
#include <ucontext.h>

enum { STACK = 64 << 10, TURNS = 5 };

struct coroutine {
	ucontext_t own, back;
	long sum, turns;
	int done;
};
static __thread struct coroutine *current;

FN long work(long n) { CALLED(work); sink += n; return n * 2; }

FN void yield(void) { CALLED(yield); struct coroutine *c = current; swapcontext(&c->own, &c->back); }

/* Calls are under way, above and below, when the coroutine switches. */
FN long nested(long n)
{
	CALLED(nested);
	if (n == 0) {
		yield();
		return work(1);
	}
	long inner = nested(n - 1);
	return inner + work(n);
}

FN void body(void)
{
	CALLED(body);
	for (long i = 0; i < TURNS; i++)
		current->sum += nested(i);
	current->done = 1;
}

FN void resume(struct coroutine *c)
{
	CALLED(resume);
	current = c;
	c->turns++;
	swapcontext(&c->back, &c->own);
}

FN void prepare(struct coroutine *c, char *stack)
{
	CALLED(prepare);
	memset(c, 0, sizeof *c);
	getcontext(&c->own);
	c->own.uc_stack.ss_sp = stack;
	c->own.uc_stack.ss_size = STACK;
	c->own.uc_link = &c->back;
	makecontext(&c->own, body, 0);
}

/* deeper resumes from below other calls, so that its frames come and go. */
FN long deeper(struct coroutine *c, long n)
{
	CALLED(deeper);
	if (n > 0)
		return kept(deeper(c, n - 1) + work(n));
	resume(c);
	return work(0);
}

FN void interleave(const char *where, char *a, char *b)
{
	CALLED(interleave);
	struct coroutine ca, cb;
	prepare(&ca, a);
	prepare(&cb, b);
	for (long turn = 0; !ca.done || !cb.done; turn++) {
		if (!ca.done)
			deeper(&ca, turn % 4);
		work(turn);
		if (!cb.done)
			deeper(&cb, 3 - turn % 4);
	}
	say("%s: %ld %ld in %ld and %ld turns\n", where, ca.sum, cb.sum, ca.turns, cb.turns);
}

/* The coroutines' stacks are buffers in a frame of the thread's own stack. */
FN void inside(void)
{
	CALLED(inside);
	static __thread char *volatile escape;
	char a[STACK], b[STACK];
	escape = a;
	interleave("in the stack", a, b);
	escape = 0;
}

static char *mapped(void)
{
	char *p = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	memset(p, 0, STACK);
	return p;
}

/* Threads hand a coroutine on to each other, in turns. */
static struct coroutine wanderer;
FN void *carry(void *unused)
{
	CALLED(carry);
	(void)unused;
	for (int i = 0; i < 2 && !wanderer.done; i++)
		deeper(&wanderer, i);
	return 0;
}

FN void *in_thread(void *unused)
{
	CALLED(in_thread);
	(void)unused;
	char *above = mapped(), *a = malloc(STACK), *b = malloc(STACK), *below = mapped();
	interleave("in a thread, on the heap", a, b);
	interleave("in a thread, mapped", above, below);
	inside();
	free(a), free(b);
	munmap(above, STACK), munmap(below, STACK);
	return 0;
}

FN void thread_with(size_t guard, char *stack, size_t size)
{
	CALLED(thread_with);
	pthread_attr_t attr;
	pthread_t t;
	pthread_attr_init(&attr);
	pthread_attr_setguardsize(&attr, guard);
	if (stack)
		pthread_attr_setstack(&attr, stack, size);
	pthread_create(&t, &attr, in_thread, 0);
	pthread_join(t, 0);
	pthread_attr_destroy(&attr);
}

static void act(void)
{
	static char fixed_a[STACK], fixed_b[STACK];
	char *a = malloc(STACK), *b = malloc(STACK);

	interleave("on the heap", a, b);
	interleave("static", fixed_a, fixed_b);
	char *m = mapped(), *n = mapped();
	interleave("mapped", m, n);
	inside();
	/* A mapping right above a thread's stack, with which it is one. */
	thread_with(4096, 0, 0);
	thread_with(0, 0, 0);
	/* A thread whose stack the program chose, with others' below and above. */
	char *area = mmap(0, 64 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	thread_with(0, area + 16 * STACK, 16 * STACK);
	munmap(area, 64 * STACK);

	prepare(&wanderer, a);
	long carried = 0;
	while (!wanderer.done) {
		pthread_t t;
		pthread_create(&t, 0, carry, 0);
		pthread_join(t, 0);
		carried++;
	}
	say("wandered over %ld threads: %ld\n", carried, wanderer.sum);
	free(a), free(b);
	munmap(m, STACK), munmap(n, STACK);
}
