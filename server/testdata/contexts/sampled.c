/*
 * The program of a test of samples: two threads serve requests, busy and waiting, and log when each
 * request surely was under way, and when none was: thread, request (0: none), since, until by
 * CLOCK_MONOTONIC.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define ROUNDS 60
#define MS 1000000

static FILE *out;
static const char *kind;

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void note(long id, long since, long until)
{
	fprintf(out, "%d %ld %ld %ld\n", gettid(), id, since, until);
}

static inline __attribute__((always_inline)) void busy(long ns)
{
	for (long end = now() + ns; now() < end;)
		;
}

NOINLINE void deep(int depth)
{
	volatile char room[200];
	memset((char *)room, depth, sizeof(room));
	if (depth > 0)
		deep(depth - 1);
	else
		busy(3 * MS);
	room[0]++;
}

NOINLINE void rest(void)
{
	struct timespec t = { .tv_nsec = 6 * MS };
	nanosleep(&t, NULL);
	__asm__ volatile("");
}

NOINLINE long handle(long id)
{
	long since = now();
	busy(3 * MS);
	rest();
	deep(5);
	note(id, since, now());
	return now();
}

NOINLINE void begin_request(long id) { __asm__ volatile("" : : "r"(id)); }
NOINLINE void end_request(void) { __asm__ volatile(""); }

/* serve begins a request, and ends it except every third time: then it ends with serve. */
NOINLINE long serve(long id)
{
	begin_request(id);
	long since = now();
	busy(3 * MS);
	rest();
	deep(5);
	note(id, since, now());
	if (id % 3 == 0)
		return now();
	end_request();
	since = now();
	busy(2 * MS);
	note(0, since, now());
	return now();
}

static void *work(void *of)
{
	for (long i = 0; i < ROUNDS; i++) {
		long id = (long)of * 1000 + i;
		if (strcmp(kind, "call") == 0)
			handle(id);
		else
			serve(id);
		long since = now();
		busy(2 * MS);
		rest();
		deep(20);
		note(0, since, now());
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	(void)argc;
	kind = argv[1];
	out = fopen(argv[2], "w");
	puts("ready");
	fflush(stdout);
	getchar();
	for (long i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, work, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	fclose(out);
	return 0;
}
