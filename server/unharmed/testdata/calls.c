// Plain calls of all shapes: deep and mutual recursion, tail calls, frames of
// variable size, results in memory, functions that look at who called them.
//
// more: -O0
// build: -O2
// more: -O1
// more: -O3 -fomit-frame-pointer
// more: -O2 -fno-omit-frame-pointer
// more: -Os
// build: -O2 -fcf-protection=full
// build: -O2 -fpatchable-function-entry=16,14
// more: -O2 -pg
// build: -O2 -finstrument-functions -DINSTRUMENTED
// more: -O2 -fstack-protector-all -fstack-clash-protection
// more: -O2 -mindirect-branch=thunk
// more: -O2 -mstackrealign
// more: -O2 -no-pie
// build: -O2 -s
// more: -O1 -static
// more: -O2 -static-pie
#include "suite.h"
#include <alloca.h>

FN long down(long n) { CALLED(down); sink++; return n == 0 ? 0 : kept(1 + down(n - 1)); }

FN long odd(long n);
FN long even(long n) { CALLED(even); return n == 0 ? 1 : odd(n - 1); }
FN long odd(long n) { CALLED(odd); return n == 0 ? 0 : even(n - 1); }

FN long fib(long n) { CALLED(fib); return n < 2 ? n : kept(fib(n - 1) + fib(n - 2)); }

/* Tail calls, direct and through a pointer. */
FN long last(long n) { CALLED(last); sink += n; return n; }
FN long middle(long n) { CALLED(middle); return last(n + 1); }
static long (*volatile through)(long) = middle;
FN long start(long n) { CALLED(start); return through(n + 1); }
FN long loops(long n, long sum) { sink++; return n == 0 ? sum : loops(n - 1, sum + n); }

FN long varying(long n)
{
	CALLED(varying);
	char *a = (char *)alloca(n);
	char b[n + 1];
	memset(a, 1, n);
	memset(b, 2, n + 1);
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += a[i] + b[i];
	return sum;
}

struct large { long v[16]; };
FN struct large made(long n)
{
	CALLED(made);
	struct large l;
	for (int i = 0; i < 16; i++)
		l.v[i] = n * i;
	return l;
}
FN long taken(long a, struct large l, long b, long c, long d, long e, long f, long g)
{
	CALLED(taken);
	long sum = a + b + c + d + e + f + g;
	for (int i = 0; i < 16; i++)
		sum += l.v[i];
	return sum;
}
FN long added(int n, ...)
{
	CALLED(added);
	long sum = 0;
	va_list args;
	va_start(args, n);
	while (n-- > 0)
		sum += va_arg(args, long);
	va_end(args);
	return sum;
}
FN __int128 wide(long a, long b) { CALLED(wide); return (__int128)a << 64 | b; }
FN long double precise(long double x) { CALLED(precise); return x * 1.5L; }
FN double summed(double a, double b, double c) { CALLED(summed); return a + b * c; }
__attribute__((ms_abi)) FN long foreign(long a, long b, long c, long d, long e) { CALLED(foreign); return a - b + c - d + e; }
FN long leaf(long n) { volatile long below[4] = {n, n + 1, n + 2, n + 3}; return below[0] + below[3]; }

/* A nested function, called through a trampoline on the stack. */
FN long applied(long (*f)(long), long n) { CALLED(applied); return f(n) + f(n + 1); }
FN long nesting(long k)
{
	CALLED(nesting);
	long inside(long n) { return n * k; }
	return applied(inside, 3);
}

/* Functions that look at their return address. */
extern char __executable_start, etext;
static int ours(void *address) { return (char *)address >= &__executable_start && (char *)address < &etext; }
FN int called_by_us(void) { CALLED(called_by_us); sink++; return ours(__builtin_return_address(0)); }
FN int asked(void) { CALLED(asked); return called_by_us(); } /* a tail call to one that looks */
FN int looks_late(long n)
{
	CALLED(looks_late);
	volatile char room[200];
	room[n] = 1;
	sink += down(3) + room[n];
	return ours(__builtin_return_address(0));
}

#ifdef INSTRUMENTED
#define BARE __attribute__((no_instrument_function))
static long strangers;
BARE void __cyg_profile_func_enter(void *f, void *site);
BARE void __cyg_profile_func_exit(void *f, void *site);
BARE static int is_our(void *a) { return (char *)a >= &__executable_start && (char *)a < &etext; }
void __cyg_profile_func_enter(void *f, void *site) { if (f != (void *)main && !is_our(site)) strangers++; }
void __cyg_profile_func_exit(void *f, void *site) { if (f != (void *)main && !is_our(site)) strangers++; }
#endif

static void act(void)
{
#ifdef INSTRUMENTED
	strangers = 0;
#endif
	say("down %ld %ld\n", down(200), down(5000));
	say("even %ld %ld\n", even(201), even(300));
	say("fib %ld\n", fib(12));
	say("start %ld loops %ld\n", start(1), loops(500, 0));
	say("varying %ld %ld\n", varying(10), varying(9000));
	struct large l = made(3);
	say("made %ld taken %ld\n", l.v[15], taken(1, l, 2, 3, 4, 5, 6, 7));
	say("added %ld\n", added(9, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L));
	__int128 w = wide(5, 6);
	say("wide %ld %ld\n", (long)(w >> 64), (long)w);
	say("precise %.3Lf summed %.3f foreign %ld\n", precise(2.5L), summed(1.5, 2.5, 3.5), foreign(1, 2, 3, 4, 5));
	say("leaf %ld nesting %ld\n", leaf(4), nesting(7));
	say("called by us %d %d %d\n", called_by_us(), asked(), looks_late(7));
#ifdef INSTRUMENTED
	say("strangers %ld\n", strangers);
#endif
}
