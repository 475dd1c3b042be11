// setjmp and longjmp: out of nested calls, out of signal handlers, from deeper
// than the kernel traps returns, and back into functions that returned twice.
//
// build: -O0
// build: -O2
// more: -O2 -fcf-protection=full
// modules: libc.so.6
#include "suite.h"

static jmp_buf env, outer;
static sigjmp_buf signalled;

FN long plain(long n) { CALLED(plain); sink += n; return n; }

FN long leap(long n)
{
	CALLED(leap);
	sink++;
	if (n == 0)
		longjmp(env, 1);
	return kept(leap(n - 1) + 1);
}

/* Returns twice, and calls others after each return. */
FN long twice(long depth)
{
	CALLED(twice);
	volatile long before = plain(1);
	if (setjmp(env) == 0) {
		leap(depth);
		return -1;
	}
	return before + plain(2) + plain(3);
}

/* An inner setjmp in each frame, unwound frame by frame. */
FN long relay(long n)
{
	CALLED(relay);
	jmp_buf kept;
	memcpy(&kept, &outer, sizeof kept);
	volatile long caught = 0;
	if (n == 0)
		longjmp(outer, 1);
	if (setjmp(outer) == 0)
		relay(n - 1);
	else
		caught = plain(1);
	memcpy(&outer, &kept, sizeof outer);
	if (caught && n < 12)
		longjmp(outer, 1);
	return caught;
}

FN long from_builtin(long n)
{
	CALLED(from_builtin);
	void *buffer[5];
	if (__builtin_setjmp(buffer))
		return n + plain(4);
	plain(5);
	__builtin_longjmp(buffer, 1);
}

FN void handler(int sig) { CALLED(handler); sink += sig; siglongjmp(signalled, plain(sig)); }

FN long signalling(long n)
{
	CALLED(signalling);
	if (n == 0) {
		raise(SIGUSR1);
		return -1;
	}
	return kept(signalling(n - 1) + 1);
}

FN long faulting(long *p) { CALLED(faulting); return *p; }

/* jmp_bufs that are jumped to again and again, from different depths. */
FN long many(long n)
{
	CALLED(many);
	volatile long round = 0;
	setjmp(env);
	if (round < n) {
		round++;
		leap(round % 7);
	}
	return round + plain(round);
}

static void act(void)
{
	struct sigaction sa = {.sa_handler = handler};

	sigaction(SIGUSR1, &sa, 0);
	sigaction(SIGSEGV, &sa, 0);
	say("twice %ld %ld %ld\n", twice(0), twice(4), twice(20));
	say("from depth 70: %ld, then %ld\n", twice(70), plain(70));
	for (int i = 0; i < 5; i++)
		say("twice again %ld\n", twice(70 + i));
	say("from depth 300: %ld\n", twice(300));
	say("relay %ld\n", relay(12));
	say("builtin %ld\n", from_builtin(9));
	say("many %ld\n", many(40));
	int got = sigsetjmp(signalled, 1);
	if (!got)
		signalling(6);
	say("signal %d\n", got);
	got = sigsetjmp(signalled, 1);
	if (!got)
		sink += faulting(0);
	say("fault %d\n", got);
	say("plain %ld\n", plain(1));
}
