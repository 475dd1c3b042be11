package testenv

// Work is a part of C programs: after measure(), work() takes 10 us of processor time on any machine.
const Work = `
#include <time.h>
static long loops;
static inline __attribute__((always_inline)) void work(void) { for (long k = 0; k < loops; k++) __asm__ volatile(""); }
static inline __attribute__((always_inline)) void measure(void) {
	long tried = 1000, best = 0;
	for (int k = 0; k < 8;) {
		struct timespec a, b;
		loops = tried;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		work();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		long ns = (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
		if (ns < 1000000) { tried *= 2; continue; }
		if (tried * 10000 / ns > best) best = tried * 10000 / ns;
		k++;
	}
	loops = best;
}
`
