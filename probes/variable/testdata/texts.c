/* A pointer to texts: a line of input says to which. */
#include <stdio.h>
#include <stdlib.h>

const char *label = "none";
static const char *const texts[] = {"one", "two", 0};

__attribute__((noinline)) void set(int n) { label = texts[n]; }

int main(void) {
	char line[100];
	puts("1");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		set(atoi(line) % 3);
		puts("1");
		fflush(stdout);
	}
}
