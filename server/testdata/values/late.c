/*
 * Two threads of one processor. What one of them passes is on pages that another thread
 * fills 50 ms after they are first touched (userfaultfd) or, with an argument, when it is
 * told to.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#define kept __attribute__((noinline, noipa))
#define PAGE 4096
#define LATE 8
#define DELAY 50000000

volatile long sink;
static char *region;
static char present[8][16];
static int uffd;
static volatile int over, told;
static long calls, early;

/* Does not touch the text. */
kept long named(const char *name, long i) { return sink += (long)name + i; }
kept void report(long calls, long early) { sink += calls + early; }

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *fill(void *unused)
{
	static char page[PAGE] __attribute__((aligned(PAGE)));
	struct uffd_msg m;

	while (read(uffd, &m, sizeof(m)) == sizeof(m)) {
		unsigned long at = m.arg.pagefault.address & -PAGE;
		long began = now();
		char line[16];
		if (told && !fgets(line, sizeof(line), stdin))
			abort();
		while (now() < began + DELAY)
			usleep(1000);
		snprintf(page, sizeof(page), "late %lu", (at - (unsigned long)region) / PAGE);
		struct uffdio_copy c = { .dst = at, .src = (unsigned long)page, .len = PAGE };
		/* A thread that is interrupted touches its page again: that is told twice. */
		if (ioctl(uffd, UFFDIO_COPY, &c) && errno != EEXIST)
			abort();
	}
	return 0;
}

static void *waits(void *unused)
{
	for (long i = 0; i < LATE; i++) {
		long began = now();
		named(region + i * PAGE, i);
		early += now() - began < DELAY;
	}
	over = 1;
	return 0;
}

static void *works(void *unused)
{
	for (; !over; calls++) {
		named(present[calls & 7], calls);
		if (calls % 100 == 99)
			usleep(1000); /* less rows */
	}
	return 0;
}

int main(int argc, char **argv)
{
	char line[16];
	pthread_t filler, a, b;
	struct uffdio_api api = { .api = UFFD_API };
	cpu_set_t one;

	told = argc > 1;
	region = mmap(NULL, LATE * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uffd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_register r = { .range = { (unsigned long)region, LATE * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	if (uffd < 0 || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &r))
		return 2;
	for (int i = 0; i < 8; i++)
		snprintf(present[i], sizeof(present[i]), "here %d", i);
	pthread_create(&filler, NULL, fill, NULL);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	sched_setaffinity(0, sizeof(one), &one);
	pthread_create(&a, NULL, waits, NULL);
	pthread_create(&b, NULL, works, NULL);
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	report(calls, early);
	return 0;
}
