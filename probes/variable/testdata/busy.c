/* Writes variables, and calls a function, as often as its input says. */
#include <stdio.h>
#include <stdlib.h>

long total;
const char *label;
static const char *const texts[] = {"one", "two"};

__attribute__((noinline)) long step(long n) { __asm__ volatile("" : "+r"(n)); return n; }

int main(void) {
	char line[100];
	puts("1");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = atol(line);
		for (long i = 0; i < n; i++) {
			*(volatile long *)&total = step(i);
			*(const char *volatile *)&label = texts[i & 1];
		}
		puts("1");
		fflush(stdout);
	}
}
