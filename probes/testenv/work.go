package testenv

// Work is a part of C programs: after measure(), work() takes 10 us of processor time on any machine.
const Work = `
#include <time.h>
static long loops;
static inline __attribute__((always_inline)) void work(void) { for (long k = 0; k < loops; k++) __asm__ volatile(""); }
static inline __attribute__((always_inline)) void measure(void) {
	struct timespec a, b;
	for (long ns = 0; ns < 1000000; loops = loops * 2 + 1000) {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		work();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		ns = (b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec;
		if (ns >= 1000000) { loops = loops * 10000 / ns; return; }
	}
}
`
