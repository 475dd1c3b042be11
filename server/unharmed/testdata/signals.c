// Signal handlers: on the stack, on alternate stacks above it, below it and
// inside it, nested, at any instruction, changing what is continued.
//
// stacks: other than the threads' own
// build: -O1 -pthread
// more: -O2 -pthread -fcf-protection=full
// more: -O1 -pthread -static
// modules: libc.so.6
#include "suite.h"
#include <sys/time.h>
#include <ucontext.h>

enum { ALT = 32 << 10 };
static sigjmp_buf env;
static volatile long handled;

FN long work(long n) { CALLED(work); sink += n; return n == 0 ? 0 : kept(1 + work(n - 1)); }

FN void on_usr2(int sig) { CALLED(on_usr2); sink += sig; handled += work(3); }
FN void on_usr1(int sig)
{
	CALLED(on_usr1);
	sink += sig;
	handled += work(2);
	raise(SIGUSR2);
	handled += work(1);
}
FN void on_segv(int sig, siginfo_t *info, void *context)
{
	CALLED(on_segv);
	sink += sig;
	(void)info;
	/* Continue behind the two bytes that fault: mov (%rdi),%eax. */
	((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2;
	handled += work(1);
}
FN void on_fpe(int sig) { CALLED(on_fpe); sink += sig; work(4); siglongjmp(env, 1); }
/* The program's own breakpoints are its own. */
FN void on_trap(int sig) { CALLED(on_trap); sink += sig; handled++; }
static volatile long ticks;
static FN long alarmed(long n) { sink++; return n == 0 ? 0 : kept(1 + alarmed(n - 1)); }
static FN void on_alarm(int sig) { sink += sig; ticks += alarmed(3) - 2; }

FN void install(int flags)
{
	CALLED(install);
	struct sigaction sa = {.sa_flags = flags};
	sa.sa_handler = on_usr1, sigaction(SIGUSR1, &sa, 0);
	sa.sa_handler = on_usr2, sigaction(SIGUSR2, &sa, 0);
	sa.sa_handler = on_fpe, sigaction(SIGFPE, &sa, 0);
	sa.sa_handler = on_trap, sigaction(SIGTRAP, &sa, 0);
	sa.sa_handler = on_alarm, sa.sa_flags = flags | SA_RESTART, sigaction(SIGALRM, &sa, 0);
	sa.sa_sigaction = on_segv, sa.sa_flags = flags | SA_SIGINFO, sigaction(SIGSEGV, &sa, 0);
}

FN long load(void *p)
{
	CALLED(load);
	long r = 5;
	asm volatile("mov (%%rdi), %%eax" : "=a"(r) : "D"(p), "0"(r));
	return r;
}
FN long divide(long a, volatile long b) { CALLED(divide); return a / b; }
FN long breakpoint(long n) { CALLED(breakpoint); asm volatile("int3"); return n + 1; }

FN long raising(long n)
{
	CALLED(raising);
	if (n > 0)
		return kept(raising(n - 1) + work(1));
	raise(SIGUSR1);
	long r = load(0) + breakpoint(1);
	if (sigsetjmp(env, 1) == 0)
		r += divide(1, 0);
	return r + work(2);
}

/* Interrupted by a timer wherever it is. */
static FN long twist(long n) { sink += n; return n & 1 ? n * 3 + 1 : n / 2; }
FN long interrupted(long n)
{
	CALLED(interrupted);
	struct itimerval on = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
	long x = n;
	setitimer(ITIMER_REAL, &on, 0);
	for (int i = 0; i < 300; i++)
		x = twist(x) + alarmed(2);
	setitimer(ITIMER_REAL, &off, 0);
	return x;
}

FN void on_stack(const char *where, char *alt)
{
	CALLED(on_stack);
	stack_t ss = {.ss_sp = alt, .ss_size = ALT};
	handled = 0;
	if (alt && sigaltstack(&ss, 0))
		abort();
	install(alt ? SA_ONSTACK : 0);
	long r = raising(5);
	say("%s: %ld, handled %ld\n", where, r, handled);
	say("%s: interrupted %ld\n", where, interrupted(7));
	ss.ss_flags = SS_DISABLE;
	if (alt)
		sigaltstack(&ss, 0);
}

FN long inside(const char *where)
{
	CALLED(inside);
	char alt[ALT];
	on_stack(where, alt);
	return alt[0] + work(1);
}

static char *mapped(void)
{
	char *p = mmap(0, ALT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(p, 1, ALT);
	return p;
}

FN void *in_thread(void *above)
{
	CALLED(in_thread);
	char *below = mapped();
	on_stack("thread, above", above);
	on_stack("thread, below", below);
	sink += inside("thread, inside");
	munmap(below, ALT);
	return 0;
}

static void act(void)
{
	static char fixed[ALT];
	char *m = mapped(), *heap = malloc(ALT);
	pthread_t t;

	on_stack("own stack", 0);
	on_stack("static", fixed);
	on_stack("heap", heap);
	on_stack("mapped", m);
	sink += inside("inside");
	pthread_create(&t, 0, in_thread, m);
	pthread_join(t, 0);
	munmap(m, ALT);
	free(heap);
}
