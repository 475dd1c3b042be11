// Coroutines with a context switch written by hand, as in language runtimes:
// no C library function is involved, and the switch has no unwind information.
//
// stacks: other than the threads' own
// build: -O2 -pthread
// more: -O2 -pthread -fcf-protection=full -s
#include "suite.h"

/* jump(&from, to): saves the stack pointer in from and continues at to. */
void jump(void **from, void *to);
asm(".text\n.globl jump\n.type jump, @function\n"
    "jump:\n"
#ifdef __CET__
    "	endbr64\n"
#endif
    "	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
    "	mov %rsp, (%rdi)\n"
    "	mov %rsi, %rsp\n"
    "	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
    "	ret\n.size jump, .-jump\n");

enum { STACK = 32 << 10, FIBRES = 12 };

struct fibre {
	void *sp, *scheduler;
	char *stack;
	long n, sum, done;
};
static __thread struct fibre *running;

FN long work(long n) { CALLED(work); sink += n; return n + 1; }
FN void yield(void) { CALLED(yield); struct fibre *f = running; jump(&f->sp, f->scheduler); }
FN long descend(long n)
{
	CALLED(descend);
	if (n == 0) {
		yield();
		return 1;
	}
	long below = descend(n - 1);
	if (n % 3 == 0)
		yield();
	return below + work(n);
}

FN void entry(void)
{
	CALLED(entry);
	for (int i = 0; i < 4; i++)
		running->sum += descend(running->n + i);
	running->done = 1;
	yield();
	abort();
}

FN void begin(struct fibre *f, long n)
{
	CALLED(begin);
	f->n = n, f->sum = 0, f->done = 0;
	void **top = (void **)(f->stack + STACK) - 2;
	*--top = (void *)entry;
	top -= 6;
	memset(top, 0, 6 * sizeof *top);
	f->sp = top;
}

FN void resume(struct fibre *f) { CALLED(resume); running = f; jump(&f->scheduler, f->sp); }

FN long schedule(struct fibre *fs, int first, int step)
{
	CALLED(schedule);
	long left = 0;
	for (int i = first; i < FIBRES; i += step)
		if (!fs[i].done) {
			resume(&fs[i]);
			left += !fs[i].done;
		}
	return left;
}

static struct fibre fibres[FIBRES];
static pthread_barrier_t barrier;

/* Two threads take the even and the odd fibres, and swap each turn. */
FN void *scheduler(void *which)
{
	CALLED(scheduler);
	for (int turn = 0; turn < 60; turn++) {
		schedule(fibres, ((int)(long)which + turn) % 2, 2);
		pthread_barrier_wait(&barrier);
	}
	return 0;
}

static void act(void)
{
	char *stacks = mmap(0, FIBRES * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < FIBRES; i++) {
		fibres[i].stack = stacks + i * STACK;
		begin(&fibres[i], i);
	}
	while (schedule(fibres, 0, 1) > 0)
		;
	for (int i = 0; i < FIBRES; i++)
		say("fibre %d: %ld\n", i, fibres[i].sum);
	for (int i = 0; i < FIBRES; i++)
		begin(&fibres[i], FIBRES - i);
	pthread_t t[2];
	pthread_barrier_init(&barrier, 0, 2);
	for (long i = 0; i < 2; i++)
		pthread_create(&t[i], 0, scheduler, (void *)i);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], 0);
	pthread_barrier_destroy(&barrier);
	for (int i = 0; i < FIBRES; i++)
		say("fibre %d on two threads: %ld, done %ld\n", i, fibres[i].sum, fibres[i].done);
	munmap(stacks, FIBRES * STACK);
}
