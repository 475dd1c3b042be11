// Serves requests in threads, and logs its own calls: "sequence-number name parent key".
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 3

static _Atomic long numbers;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;

static void note(long n, const char *name, long parent, const char *key) {
	pthread_mutex_lock(&log_lock);
	printf("%ld %s %ld %s\n", n, name, parent, key);
	pthread_mutex_unlock(&log_lock);
}

__attribute__((noinline)) void leaf(long n, long parent, const char *key) {
	note(n, "leaf", parent, key);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void work(long n, long parent, const char *key, int depth) {
	note(n, "work", parent, key);
	if (depth > 0)
		work(++numbers, n, key, depth - 1);
	for (int i = 0; i < 2; i++)
		leaf(++numbers, n, key);
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void serve(long n, const char *key) {
	note(n, "serve", 0, key);
	work(++numbers, n, key, n % 3);
	leaf(++numbers, n, key);
	__asm__ volatile("" ::: "memory");
}

static void *requests(void *arg) {
	long *job = arg;
	for (long i = 0; i < job[1]; i++) {
		char key[32];
		snprintf(key, sizeof key, "request-%ld-%ld", job[0], i);
		serve(++numbers, key);
	}
	return NULL;
}

// Each number on the standard input is how many requests each thread serves.
int main(void) {
	char line[32];
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	for (long round = 0; fgets(line, sizeof line, stdin); round++) {
		pthread_t threads[THREADS];
		long jobs[THREADS][2];
		for (int i = 0; i < THREADS; i++) {
			jobs[i][0] = round * THREADS + i;
			jobs[i][1] = atol(line);
			pthread_create(&threads[i], NULL, requests, jobs[i]);
		}
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		printf("done\n");
		fflush(stdout);
	}
	return 0;
}
