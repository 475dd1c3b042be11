// Threads that are never long in one place: each goes down a chain of calls,
// down0 to down7, as deep as chance has it, and there runs, sleeps or waits for
// another thread. Others live only for one such walk.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static int pipes[2];
static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static __thread unsigned long seed;
static __thread volatile unsigned long sink;

static unsigned chance(unsigned n) { seed = seed * 6364136223846793005ul + 1442695040888963407ul; return (seed >> 33) % n; }

__attribute__((noinline)) static void bottom(void) {
	char c = 0;
	switch (chance(5)) {
	case 0: for (unsigned i = 0; i < 20000; i++) sink += i; break;
	case 1: { struct timespec t = {0, 100000}; nanosleep(&t, 0); break; }
	case 2: sched_yield(); break;
	case 3: if (write(pipes[1], &c, 1) != 1 || read(pipes[0], &c, 1) != 1) abort(); break;
	case 4: pthread_mutex_lock(&contended); sink++; sched_yield(); pthread_mutex_unlock(&contended); break;
	}
	sink++;
}

// Each has a frame of another size.
#define DOWN(n, next) __attribute__((noinline)) static void down##n(unsigned depth) { \
	volatile char pad[16 + 24 * n]; pad[depth] = n; \
	if (depth > 0) next; else bottom(); \
	sink += pad[depth]; }
DOWN(7, bottom())
DOWN(6, down7(depth - 1))
DOWN(5, down6(depth - 1))
DOWN(4, down5(depth - 1))
DOWN(3, down4(depth - 1))
DOWN(2, down3(depth - 1))
DOWN(1, down2(depth - 1))
DOWN(0, down1(depth - 1))

static void *walk(void *p) { seed = (unsigned long)p; for (;;) down0(chance(8)); }
static void *once(void *p) { seed = (unsigned long)p; down0(chance(8)); return 0; }
static void *spawn(void *p) {
	for (unsigned long i = 0;; i++) {
		pthread_t t[4];
		for (int k = 0; k < 4; k++) pthread_create(&t[k], 0, once, (void *)(i * 4 + k));
		for (int k = 0; k < 4; k++) pthread_join(t[k], 0);
		usleep(200);
	}
}

int main(int argc, char **argv) {
	if (pipe(pipes)) return 1;
	pthread_t t;
	for (long i = 0; i < atoi(argv[1]); i++) pthread_create(&t, 0, walk, (void *)(i + 1));
	pthread_create(&t, 0, spawn, 0);
	puts("1");
	fflush(stdout);
	pause();
}
