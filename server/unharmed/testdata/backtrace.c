// A program that unwinds its own stack. While the return of a call is trapped,
// its frame has the trap's address where others have their caller's, and an
// unwinder stops there: that can be seen, and only probes at exits are not.
//
// returns: exits
// build: -O1 -fno-omit-frame-pointer
// more: -O2 -fno-omit-frame-pointer
#include "suite.h"
#include <execinfo.h>

FN int unwound(void) { CALLED(unwound); void *stack[64]; int n = backtrace(stack, 64); sink++; return n; }

FN int frames(long n)
{
	CALLED(frames);
	int r = n > 0 ? frames(n - 1) : unwound();
	sink++;
	return r;
}

/* By the chain of frame pointers, where the compiler keeps one. */
FN int chained(long n)
{
	CALLED(chained);
	if (n > 0) {
		int r = chained(n - 1);
		sink++;
		return r;
	}
	extern char __executable_start, etext;
	int ours = 0;
	for (void **fp = __builtin_frame_address(0); ours < 30; fp = *fp, ours++)
		if ((char *)fp[1] < &__executable_start || (char *)fp[1] >= &etext)
			break;
	return ours;
}

static void act(void)
{
	/* How many frames there are below these is the system's affair. */
	int base = frames(0);
	say("frames %d %d\n", frames(5) - base, frames(20) - base);
	base = chained(0);
	say("chained %d\n", chained(7) - base);
}
