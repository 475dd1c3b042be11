/*
 * What the programs of the suite share. A program defines act(), which does
 * what the program is about, tells by say() what came of it, and counts by
 * CALLED(f) at the beginning of f how often its functions are called.
 *
 *	program N    acts N times, prints what the first round said, how the
 *	             others differed, and the counts of all processes
 *	program 0    acts until its standard input ends; prints no counts. It has
 *	             acted once when it prints its first line
 */
#ifndef SUITE_H
#define SUITE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Functions that are counted are functions, whatever the optimizer thinks. */
#define FN __attribute__((noinline, noclone))

static void act(void);

static volatile long sink; /* to which work is done */

/* kept is n, and keeps a recursive call from becoming a loop. */
static inline long kept(long n) { asm volatile("" : "+r"(n)); return n; }

struct count {
	char name[56];
	long n;
};
enum { COUNTS = 128 };
static struct count *counts; /* shared with children, and handed on by exec */

static FN void count_call(struct count **where, const char *name)
{
	struct count *c = __atomic_load_n(where, __ATOMIC_ACQUIRE);

	for (int i = 0; !c && i < COUNTS; i++) {
		static char lock;
		while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
			;
		if (!counts[i].name[0])
			strcpy(counts[i].name, name);
		if (!strcmp(counts[i].name, name))
			__atomic_store_n(where, c = &counts[i], __ATOMIC_RELEASE);
		__atomic_clear(&lock, __ATOMIC_RELEASE);
	}
	if (!c)
		abort();
	__atomic_fetch_add(&c->n, 1, __ATOMIC_SEQ_CST);
}

#define CALLED(f)                                         \
	do {                                              \
		static struct count *count_of_this;       \
		count_call(&count_of_this, #f);           \
	} while (0)

static char said[1 << 16], first[1 << 16];
static size_t said_bytes;

static FN void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	said_bytes += vsnprintf(said + said_bytes, sizeof said - said_bytes, format, args);
	va_end(args);
	if (said_bytes >= sizeof said)
		abort();
}

static FN int told_to_end(void)
{
	struct pollfd in = {0, POLLIN | POLLHUP, 0};

	return poll(&in, 1, 0) > 0;
}

static FN void open_counts(void)
{
	const char *inherited = getenv("SUITE_COUNTS");
	int fd = inherited ? atoi(inherited) : memfd_create("counts", 0);
	char number[16];

	sprintf(number, "%d", fd);
	setenv("SUITE_COUNTS", number, 1);
	if (ftruncate(fd, COUNTS * sizeof *counts))
		abort();
	counts = (struct count *)mmap(NULL, COUNTS * sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counts == MAP_FAILED)
		abort();
}

/* Programs that end elsewhere than in main print by themselves. */
static FN void print_all(long rounds)
{
	fputs(first, stdout);
	for (int i = 0; rounds && i < COUNTS && counts[i].name[0]; i++)
		printf("calls %s %ld\n", counts[i].name, counts[i].n);
	fflush(stdout);
}

#ifndef OWN_MAIN
int main(int argc, char **argv)
{
	long rounds = argc > 1 ? atol(argv[1]) : 1, n;

	open_counts();
	for (n = 0; rounds ? n < rounds : n == 0 || !told_to_end(); n++) {
		said_bytes = 0;
		act();
		if (n == 0) {
			strcpy(first, said);
			puts("running");
			fflush(stdout);
		} else if (strcmp(first, said)) {
			printf("round %ld differs:\n%s\n", n, said);
			fflush(stdout);
			return 70;
		}
	}
	print_all(rounds);
	return 0;
}
#endif

#endif
