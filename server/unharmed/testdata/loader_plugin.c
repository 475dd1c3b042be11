/* The plugin of loader.c. */
#include <stdlib.h>

static long *state;

__attribute__((constructor)) static void arrive(void) { state = calloc(4, sizeof *state); state[0] = 5; }
__attribute__((destructor)) static void depart(void) { free(state); state = 0; }

__attribute__((noinline)) long plugin_step(long n) { return n + state[0]; }

long plugin_run(long (*callback)(long), long n)
{
	long sum = 0;
	for (long i = 0; i < n; i++)
		sum += plugin_step(callback(i));
	return sum;
}
