// Threads that end in the middle of calls: pthread_exit and pthread_cancel with
// cleanup handlers and destructors, asynchronous cancellation, small stacks,
// threads without a C library's thread behind them.
//
// build: -O1 -pthread
// build: -O2 -pthread -fexceptions
// more: -O2 -pthread -s
// more: -O1 -pthread -static
// modules: libc.so.6
#include "suite.h"
#include <sched.h>
#include <semaphore.h>

static long cleaned, destroyed;
static pthread_key_t key;
static sem_t there;

FN long work(long n) { CALLED(work); sink += n; return n == 0 ? 0 : kept(1 + work(n - 1)); }
FN void cleanup(void *p) { CALLED(cleanup); __atomic_fetch_add(&cleaned, (long)p + work(1), __ATOMIC_SEQ_CST); }
FN void destroy(void *p) { CALLED(destroy); __atomic_fetch_add(&destroyed, (long)p + work(2), __ATOMIC_SEQ_CST); }
static void scoped(long *p) { cleanup((void *)*p); }

/* With -fexceptions the attribute's handler runs as the stack unwinds. */
FN long leaving(long n)
{
	CALLED(leaving);
	long r;
	pthread_cleanup_push(cleanup, (void *)n);
#ifdef __EXCEPTIONS
	__attribute__((cleanup(scoped))) long held = n;
#else
	long held = n;
	(void)scoped, (void)held;
#endif
	if (n == 0)
		pthread_exit((void *)(work(5) + 2));
	r = leaving(n - 1) + work(1);
	pthread_cleanup_pop(1);
	return r;
}
FN void *exiting(void *n) { CALLED(exiting); pthread_setspecific(key, (void *)3); return (void *)leaving((long)n); }

FN void wait_forever(void) { CALLED(wait_forever); sem_post(&there); for (;;) pause(); }
FN void spin(void) { CALLED(spin); sem_post(&there); for (;;) sink++; }
FN long waiting(long n, int how)
{
	CALLED(waiting);
	long r = 0;
	pthread_cleanup_push(cleanup, (void *)1);
	if (n > 0)
		r = waiting(n - 1, how) + 1;
	else if (how)
		spin();
	else
		wait_forever();
	pthread_cleanup_pop(0);
	return r;
}
FN void *cancelled(void *how)
{
	CALLED(cancelled);
	pthread_setspecific(key, (void *)4);
	if (how)
		pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
	return (void *)waiting(5, how != 0);
}

/* The C library unlocks a stream as it unwinds through a cancelled read. */
FN void *reading(void *stream) { CALLED(reading); sem_post(&there); return (void *)(long)fgetc((FILE *)stream); }
FN int unlocked(void)
{
	CALLED(unlocked);
	int ends[2];
	pthread_t t;
	if (pipe(ends))
		abort();
	FILE *stream = fdopen(ends[0], "r");
	pthread_create(&t, 0, reading, stream);
	sem_wait(&there);
	usleep(1000);
	pthread_cancel(t);
	pthread_join(t, 0);
	int locked = ftrylockfile(stream);
	if (!locked) {
		funlockfile(stream);
		fclose(stream);
	}
	close(ends[1]);
	return !locked;
}

FN void *brief(void *n) { CALLED(brief); return (void *)work((long)n); }

static int raw(void *p) { *(long *)p = work(6); return 0; }

/* clone: a process that shares all memory, and a thread pointer that is not its own. */
FN long cloned(void)
{
	CALLED(cloned);
	char *stack = malloc(64 << 10);
	volatile long result = 0;
	int status;
	pid_t pid = clone(raw, stack + (64 << 10), CLONE_VM | CLONE_FILES | SIGCHLD, (void *)&result);
	waitpid(pid, &status, 0);
	free(stack);
	return result + status;
}

static void act(void)
{
	static int once;
	pthread_t t[16];
	void *result;

	if (!once++) {
		pthread_key_create(&key, destroy);
		sem_init(&there, 0, 0);
	}
	cleaned = destroyed = 0;
	pthread_create(&t[0], 0, exiting, (void *)8);
	pthread_join(t[0], &result);
	say("pthread_exit: %ld, cleaned %ld, destroyed %ld\n", (long)result, cleaned, destroyed);
	for (long how = 0; how < 2; how++) {
		pthread_create(&t[0], 0, cancelled, (void *)how);
		sem_wait(&there);
		pthread_cancel(t[0]);
		pthread_join(t[0], &result);
		say("pthread_cancel: %d, cleaned %ld, destroyed %ld\n", result == PTHREAD_CANCELED, cleaned, destroyed);
	}
	say("unlocked: %d\n", unlocked());
	/* Many at a time, with small stacks and their own. */
	long sum = 0;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 64 << 10);
	for (int round = 0; round < 3; round++) {
		for (long i = 0; i < 16; i++)
			pthread_create(&t[i], i % 2 ? &small : 0, brief, (void *)i);
		for (long i = 0; i < 16; i++) {
			pthread_join(t[i], &result);
			sum += (long)result;
		}
	}
	pthread_attr_destroy(&small);
	say("many: %ld\n", sum);
	say("cloned: %ld\n", cloned());
}
