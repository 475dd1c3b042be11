/* A marked place (what <sys/sdt.h> makes) with eight arguments, fractions among them,
 * and arguments that are variables by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "mark.h"

__attribute__((used)) long counter = 7;
__attribute__((used)) static int table[4] = {10, -20, 30, -40};
volatile double share = 0.25;

__attribute__((noinline, noipa)) void pass(long n, double *load, float *part, const char *text)
{
	MARK("many", "8@%0 -8@%1 -4@%2 8f@%3 4f@%4 -8@%5 -4@%6 2@%7 8@%8", "r"(n), "r"(-n), "r"((int)n - 1),
	     "m"(*load), "m"(*part), "n"(-5), "r"((int)-n), "n"(65535), "r"(text));
	MARK("variables", "-8@counter(%%rip) -4@table+4(%%rip) -4@8+table(%%rip) 8@$counter 8f@share(%%rip)", "r"(n));
	MARK("stripped", "8@nothing_of_that_name(%%rip) -8@%0", "r"(n));
	MARK("indexed", "-4@(%0,%1,4) -4@-4(%0,%1,4) -4@table(,%1,4) -8@(,%1,8) 2@(%0,%1,4) -1@(%0,%1,4) -4@-4(%0,%1,4) %k2", "r"(table), "r"(n), "r"(-n));
}

int main(void)
{
	char line[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	for (int i = 1; i <= 3; i++) {
		double load = i / 2.0;
		float part = -i / 4.0f;
		counter = i;
		share = i * 0.25;
		pass(i, &load, &part, "a text");
	}
	puts("done");
}
