/*
 * The four ways in which programs get their events (Reiss, section 3): a thread
 * each. Every few milliseconds a feeder brings an event to each that has done
 * with the one before: however busy the machine is, threads come to wait.
 */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile unsigned long sink;
static int messages[2], polled[2];
static volatile int reading, working, polling; /* an event is under way */

NOINLINE void burn(long us)
{
	struct timespec a, b;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	do {
		for (int i = 0; i < 1000; i++)
			sink += i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
}

/* 1: read and process. */
NOINLINE char read_message(void)
{
	char c = 0;
	if (read(messages[0], &c, 1) != 1)
		abort();
	return c;
}
NOINLINE void process_message(char c) { burn(2000); sink += c; }
static void *reader(void *p)
{
	for (;;) {
		process_message(read_message());
		reading = 0;
	}
	return p;
}

/* 2: a queue of work, with a function to each piece of it. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static int queued;
NOINLINE int next_job(void)
{
	pthread_mutex_lock(&mutex);
	while (!queued)
		pthread_cond_wait(&arrived, &mutex);
	int job = queued--;
	pthread_mutex_unlock(&mutex);
	return job;
}
NOINLINE void compress_job(int n) { burn(1500); sink += n; }
NOINLINE void index_job(int n) { burn(1500); sink += n; }
static void (*jobs[])(int) = {compress_job, index_job};
static void *worker(void *p)
{
	for (unsigned n = 0;; n++) {
		jobs[n % 2](next_job());
		working = 0;
	}
	return p;
}

/* 3: a loop whose function that waits lies some calls deep. */
NOINLINE int wait_readable(int fd)
{
	struct pollfd f = {.fd = fd, .events = POLLIN};
	int n = poll(&f, 1, 100);
	sink++;
	return n;
}
NOINLINE int next_event(void)
{
	char c;
	while (wait_readable(polled[0]) <= 0)
		sink++;
	if (read(polled[0], &c, 1) != 1)
		abort();
	return c;
}
NOINLINE void update_view(int e) { burn(1000); sink += e; }
NOINLINE void on_event(int e) { burn(1000); update_view(e); sink++; }
static void *poller(void *p)
{
	for (;;) {
		on_event(next_event());
		polling = 0;
	}
	return p;
}

/* 4: called back, by qsort, by a signal, and once. */
static int by_size(const void *a, const void *b)
{
	for (int i = 0; i < 200; i++)
		sink += i;
	return *(int *)a - *(int *)b;
}
NOINLINE void on_signal(int n) { burn(1500); sink += n; }
NOINLINE void set_up(void) { burn(300000); }
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void *caller(void *p)
{
	static int values[1000];
	signal(SIGUSR1, on_signal);
	for (;;) {
		struct timespec pause = {0, 5000000};
		nanosleep(&pause, 0);
		for (int i = 0; i < 1000; i++)
			values[i] = rand();
		qsort(values, 1000, sizeof(int), by_size);
		raise(SIGUSR1);
		once = PTHREAD_ONCE_INIT;
		static int n;
		if (n++ % 100 == 50)
			pthread_once(&once, set_up);
	}
	return p;
}

int main(void)
{
	pthread_t t;
	if (pipe(messages) || pipe(polled))
		return 1;
	pthread_create(&t, 0, reader, 0);
	pthread_create(&t, 0, worker, 0);
	pthread_create(&t, 0, poller, 0);
	pthread_create(&t, 0, caller, 0);
	for (;;) {
		struct timespec pause = {0, 10000000};
		nanosleep(&pause, 0);
		if (!working) {
			working = 1;
			pthread_mutex_lock(&mutex);
			queued++;
			pthread_cond_signal(&arrived);
			pthread_mutex_unlock(&mutex);
		}
		if (!reading) {
			reading = 1;
			if (write(messages[1], "m", 1) != 1)
				return 1;
		}
		if (!polling) {
			polling = 1;
			if (write(polled[1], "e", 1) != 1)
				return 1;
		}
	}
}
