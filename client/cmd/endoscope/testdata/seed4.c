/* A target for the statements of "EndoScope" (VLDB 2008), section 4.4.
 *
 * busy: f1 and f2 run for more than a second while every CPU is loaded, f3 not.
 * apart A B [F]: foo runs for A seconds and bar for B, both from the beginning. Then it
 * waits for the file F, for minutes at most. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void burn(double seconds)
{
	for (double end = now() + seconds; now() < end;)
		;
}

static void rest(double seconds)
{
	struct timespec t = { (time_t)seconds, (seconds - (time_t)seconds) * 1e9 };
	nanosleep(&t, NULL);
}

void f1(void) { burn(1.3); }
void f2(void) { burn(1.1); }
void f3(void) { burn(0.001); }
void foo(double seconds) { rest(seconds); }
void bar(double seconds) { rest(seconds); }

static void *call_f1(void *unused) { f1(); return unused; }
static void *call_f2(void *unused) { f2(); f3(); return unused; }
static void *load(void *unused) { burn(1.3); return unused; }
static void *call_foo(void *seconds) { foo(*(double *)seconds); return NULL; }
static void *call_bar(void *seconds) { bar(*(double *)seconds); return NULL; }

int main(int argc, char **argv)
{
	pthread_t threads[256];
	int n = 0;

	if (argc > 3 && !strcmp(argv[1], "apart")) {
		static double a, b;
		a = atof(argv[2]);
		b = atof(argv[3]);
		pthread_create(&threads[n++], NULL, call_foo, &a);
		pthread_create(&threads[n++], NULL, call_bar, &b);
	} else {
		pthread_create(&threads[n++], NULL, call_f1, NULL);
		pthread_create(&threads[n++], NULL, call_f2, NULL);
		for (long cpus = sysconf(_SC_NPROCESSORS_ONLN); n < cpus && n < 250;)
			pthread_create(&threads[n++], NULL, load, NULL);
	}
	while (n)
		pthread_join(threads[--n], NULL);
	if (argc > 4)
		for (int i = 0; i < 12000 && access(argv[4], F_OK); i++)
			rest(0.01);
	else
		rest(argc > 3 ? 3 : 5); /* while the load is sampled */
	puts("over");
	return 0;
}
