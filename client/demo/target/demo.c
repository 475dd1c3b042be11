/*
 * A small program to look into: what servers do, in miniature. Jobs go through
 * a queue to two workers, a timer ticks, a client's requests come in over a
 * socket pair, a cache allocates and frees, and everybody wants one lock.
 *
 * It prints "ready" when all threads run, and ends when its standard input
 * does: so it never outlives whoever started it, even one that was killed.
 *
 * Functions are kept apart (no inlining, no cloning, no tail calls) so that
 * each call is one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FUNCTION __attribute__((noipa))

/* The world that variable_value can watch. */
int queue_length;
long jobs_done;
long cache_bytes;

/* ---- time and chance ---- */

static void sleep_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };

	nanosleep(&t, NULL);
}

/* Each thread has its own dice, so that the lock stays the only thing shared. */
static __thread uint32_t dice = 1;

static uint32_t roll(uint32_t sides)
{
	dice ^= dice << 13;
	dice ^= dice >> 17;
	dice ^= dice << 5;
	return dice % sides;
}

/* ---- computing ---- */

FUNCTION int fib(int n)
{
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

FUNCTION uint32_t checksum(const unsigned char *data, int size)
{
	uint32_t sum = 2166136261u;

	for (int i = 0; i < size; i++)
		sum = (sum ^ data[i]) * 16777619u;
	return sum;
}

/* ---- a lock that everybody wants ---- */

static pthread_mutex_t stats_lock = PTHREAD_MUTEX_INITIALIZER;

FUNCTION void lock_stats(void)
{
	pthread_mutex_lock(&stats_lock);
}

FUNCTION void unlock_stats(void)
{
	pthread_mutex_unlock(&stats_lock);
}

FUNCTION void update_stats(const char *what, int held_us)
{
	lock_stats();
	jobs_done += what[0] == 'j';
	sleep_us(held_us);
	unlock_stats();
}

/* ---- a cache ---- */

struct entry {
	int key;
	int size;
	unsigned char *data;
};

#define CACHE_SLOTS 64

static struct entry *cache[CACHE_SLOTS];
static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

FUNCTION void cache_evict(int slot)
{
	struct entry *e = cache[slot];

	if (!e)
		return;
	cache[slot] = NULL;
	cache_bytes -= e->size;
	free(e->data);
	free(e);
}

FUNCTION int cache_put(int key, int size)
{
	int slot = key % CACHE_SLOTS;
	struct entry *e = malloc(sizeof *e);

	if (!e)
		return -1;
	e->key = key;
	e->size = size;
	e->data = calloc(1, size);
	if (!e->data) {
		free(e);
		return -1;
	}
	pthread_mutex_lock(&cache_lock);
	cache_evict(slot);
	cache[slot] = e;
	cache_bytes += size;
	pthread_mutex_unlock(&cache_lock);
	return slot;
}

FUNCTION int cache_get(int key)
{
	int slot = key % CACHE_SLOTS, found = -1;

	pthread_mutex_lock(&cache_lock);
	if (cache[slot] && cache[slot]->key == key)
		found = (int)checksum(cache[slot]->data, cache[slot]->size);
	pthread_mutex_unlock(&cache_lock);
	return found;
}

/* ---- jobs ---- */

struct job {
	int id;
	int size;
};

#define QUEUE_SLOTS 32

static struct job queue[QUEUE_SLOTS];
static int queue_first;
static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_filled = PTHREAD_COND_INITIALIZER;

FUNCTION int enqueue_job(int id, int size)
{
	int taken = 0;

	pthread_mutex_lock(&queue_lock);
	if (queue_length < QUEUE_SLOTS) {
		queue[(queue_first + queue_length) % QUEUE_SLOTS] = (struct job){ id, size };
		queue_length++;
		taken = 1;
		pthread_cond_signal(&queue_filled);
	}
	pthread_mutex_unlock(&queue_lock);
	return taken;
}

FUNCTION struct job dequeue_job(void)
{
	struct job j;

	pthread_mutex_lock(&queue_lock);
	while (queue_length == 0)
		pthread_cond_wait(&queue_filled, &queue_lock);
	j = queue[queue_first];
	queue_first = (queue_first + 1) % QUEUE_SLOTS;
	queue_length--;
	pthread_mutex_unlock(&queue_lock);
	return j;
}

FUNCTION int process_job(int id, int size)
{
	int result;

	result = fib(6 + size % 7);
	cache_put(id, 64 + size);
	sleep_us(500 + 20 * size);
	if (id % 20 == 0) /* now and then one takes far too long */
		sleep_us(40000);
	update_stats("job", 200);
	return result;
}

static void *worker(void *name)
{
	prctl(PR_SET_NAME, name);
	dice += (uintptr_t)name;
	for (;;) {
		struct job j = dequeue_job();

		process_job(j.id, j.size);
	}
	return NULL;
}

/* ---- a timer that hands out the jobs ---- */

FUNCTION void on_timer(int tick)
{
	for (int i = roll(3); i >= 0; i--)
		enqueue_job(tick * 3 + i, (int)roll(200));
	if (tick % 50 == 0)
		update_stats("timer", 3000);
}

static void *timer(void *name)
{
	prctl(PR_SET_NAME, name);
	for (int tick = 1;; tick++) {
		sleep_us(20000);
		on_timer(tick);
	}
	return NULL;
}

/* ---- requests over a socket ---- */

static int sockets[2]; /* client, reader */

static const char *const paths[] = {
	"/", "/login", "/static/logo.png", "/api/v1/orders", "/api/v1/orders/42", "/search?q=slow",
};

FUNCTION int read_request(char *path, int room)
{
	ssize_t n;

	do
		n = read(sockets[1], path, room - 1);
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -1;
	path[n] = 0;
	return (int)n;
}

FUNCTION int handle_request(const char *path)
{
	int key = (int)(checksum((const unsigned char *)path, (int)strlen(path)) % 1000);

	if (cache_get(key) < 0)
		cache_put(key, 512);
	sleep_us(300 + (long)roll(400));
	if (strncmp(path, "/search", 7) == 0) { /* the slow one */
		fib(14);
		sleep_us(8000);
	}
	update_stats("request", 100);
	return strcmp(path, "/login") == 0 ? 302 : 200;
}

static void *reader(void *name)
{
	char path[64];

	prctl(PR_SET_NAME, name);
	dice = 12345;
	while (read_request(path, sizeof path) > 0)
		handle_request(path);
	return NULL;
}

FUNCTION int send_request(const char *path)
{
	return (int)send(sockets[0], path, strlen(path), MSG_NOSIGNAL);
}

static void *client(void *name)
{
	prctl(PR_SET_NAME, name);
	dice = 777;
	for (;;) {
		sleep_us(10000 + (long)roll(20000));
		if (send_request(paths[roll(sizeof paths / sizeof *paths)]) < 0)
			return NULL;
	}
}

/* ---- */

static void start(void *(*run)(void *), const char *name)
{
	pthread_t t;

	if (pthread_create(&t, NULL, run, (void *)name) != 0) {
		fprintf(stderr, "endoscope-demo: cannot start %s\n", name);
		exit(1);
	}
}

int main(void)
{
	char c;
	ssize_t n;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sockets) < 0) {
		perror("endoscope-demo: socketpair");
		return 1;
	}
	start(worker, "worker-1");
	start(worker, "worker-2");
	start(reader, "reader");
	start(client, "client");
	start(timer, "timer");
	puts("ready");
	fflush(stdout);
	do
		n = read(0, &c, 1);
	while (n > 0 || (n < 0 && errno == EINTR));
	return 0;
}
