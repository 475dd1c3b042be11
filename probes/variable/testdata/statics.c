/* A unit of a program of several, told apart by NUMBER; that of number 0 has main. Each
 * has static variables of the same names. */
#include <stdio.h>
#include <stdlib.h>

#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)

struct conf { int a, limit; };
static volatile struct conf conf = {1, 100 + NUMBER};
static volatile long count = 10 * NUMBER;
#if NUMBER == 1
volatile long shown = 7; /* and the others have a static one */
#else
static volatile long shown = 70 + NUMBER;
#endif

__attribute__((noinline)) void JOIN(set, NUMBER)(long n) { count = n; conf.limit = n; shown = n; }

#if NUMBER == 0
void set1(long), set2(long);
int main(void) {
	char line[100];
	puts("1"); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = atol(line + 1);
		(line[0] == '0' ? set0 : line[0] == '1' ? set1 : set2)(n);
		puts(line); fflush(stdout);
	}
}
#endif
