/* A chain of three inlined functions, an inlined one that has a loop, and one that the compiler
   splits into a part that is run often and one that is not. */
#include <stdio.h>
#include <stdlib.h>
#include "chain.h"

static inline __attribute__((always_inline)) long third(const long *p, long n) {
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += mixed(p[i], sum);
	return sum;
}

static inline __attribute__((always_inline)) long second(const long *p, long n) {
	if (__builtin_expect(n > 1000000, 0)) {
		fprintf(stderr, "too many: %ld\n", n);
		abort();
	}
	return third(p, n) ^ 0x55;
}

static inline __attribute__((always_inline)) long first(const long *p, long n) {
	return second(p, n) + second(p + 1, n - 1);
}

__attribute__((noinline)) long outer(const long *p, long n) {
	long all = first(p, n);
	if (all % 7 == 3)
		all += first(p, n / 2);
	return all;
}

int main(int argc, char **argv) {
	long numbers[64];
	for (int i = 0; i < 64; i++)
		numbers[i] = i * argc;
	printf("%ld\n", outer(numbers, 64));
	return 0;
}
