/* Functions that return one of each type. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define kept __attribute__((noinline, noipa))

enum color { RED, GREEN = 7, BLUE = -2 };
struct point { int x, y; };
struct pair { long n; const char *name; };
struct flags { unsigned low : 3, high : 5; bool open; };
struct mixed { double load; long n; };
struct large { long id; const char *path; struct point at; int more[8]; };
volatile int sink;

kept signed char small(int n) { return sink += 0, n - 106; }
kept unsigned char byte(int n) { return sink += 0, n + 194; }
kept short shorter(int n) { return sink += 0, n - 30006; }
kept int negative(int n) { return sink += 0, n - 2000000006; }
kept unsigned unsigned_(int n) { return sink += 0, n + 3999999994u; }
kept long wide(long n) { return sink += 0, n - 9000000000000000006L; }
kept uint64_t huge(long n) { return sink += 0, (1ULL << 63) + n; }
kept bool yes(int n) { return sink += 0, n == 6; }
kept bool no(int n) { return sink += 0, n != 6; }
kept enum color color(int n) { return sink += 0, n == 6 ? BLUE : RED; }
kept const char *text(int n) { return sink += 0, &"a result"[n - 6]; }
kept char *nothing(int n) { return sink += 0, n == 6 ? NULL : "x"; }
kept void *address(void *p) { return sink += 0, p; }
kept struct point point(int n) { return sink += 0, (struct point){n - 7, n + 2}; }
kept struct pair pair(int n) { return sink += 0, (struct pair){-n, "named"}; }
kept struct flags flags(int n) { return sink += 0, (struct flags){n - 1, n + 11, true}; }
kept struct mixed mixed(int n) { return sink += 0, (struct mixed){n, -n}; }
kept struct large large(int n) { return sink += 0, (struct large){-n, "/large", {n, -n}, {n}}; }
kept struct large *pointed(struct large *l) { return sink += 0, l; }
kept double fraction(int n) { return sink += 0, n / 4.0; }
kept void none(int n) { sink += n; }
kept int frame(int n)
{
	char b[64];
	memset(b, n, sizeof b);
	return sink += 0, -b[n];
}

int main(void)
{
	char line[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int i = 0; i < 3; i++) {
		small(6), byte(6), shorter(6), negative(6), unsigned_(6), wide(6), huge(6), yes(6), no(6), color(6);
		text(6), nothing(6), address((void *)4096), point(6), pair(6), flags(6), mixed(6);
		struct large l = large(6);
		pointed(&l), fraction(6), none(6), frame(6);
	}
	puts("done");
	return 0;
}
