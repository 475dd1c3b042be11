/*
 * Rounds of calls: those of work behind request, in its round, are paired where
 * request's second argument is 1; most others meet a shut gate. It prints the
 * pairs, unless it is told not to wait.
 */
#include <stdio.h>
#include <unistd.h>
volatile long sink;
#define NOINLINE __attribute__((noinline, noclone))
NOINLINE long request(long round, long kind) { sink += kind; return round; }
NOINLINE long work(long round, long n) { sink += n; return round; }
int main(int argc, char **argv)
{
	char b[8];
	if (argc == 1) { // wait to be told
		puts("ready");
		fflush(stdout);
		if (!fgets(b, sizeof b, stdin))
			return 9;
	}
	for (long round = 0; round < 12; round++) {
		for (long i = 0; i < 200; i++)
			work(round, i);
		request(round, round % 3);
		for (long i = 200; i < 210; i++) {
			work(round, i);
			if (argc == 1 && round % 3 == 1)
				printf("%ld,%ld\n", round, i);
		}
		usleep(120000);
	}
	return 0;
}
