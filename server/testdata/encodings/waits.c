/*
 * A program that works, waits and allocates, by functions of its own. It says how
 * often, how many bytes, and how many ns it has waited and worked in all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
static volatile long sink;
static long waited, worked, allocations, bytes;

static long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

NOINLINE void await(long ms)
{
	struct timespec t = {0, ms * 1000000};
	long from = now();

	nanosleep(&t, NULL);
	waited += now() - from;
}

NOINLINE void work(long n)
{
	long from = now();

	while (n--)
		sink += n;
	worked += now() - from;
}

NOINLINE void *allocate(long n)
{
	allocations++;
	bytes += n;
	return malloc(n);
}

NOINLINE void serve(long i)
{
	await(1 + i % 3);
	free(allocate(100 * i));
	work(100000);
}

int main(int argc, char **argv)
{
	for (long i = 1; i <= 40; i++)
		serve(i);
	FILE *f = fopen(argv[1], "w");
	fprintf(f, "%ld %ld %ld %ld\n", allocations, bytes, waited, worked);
	return fclose(f);
}
