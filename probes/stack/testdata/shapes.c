// Threads that are parked, each in a shape of its own. A thread's name is that
// of its shape; what it is in is written in shapes_test.go.
#define _GNU_SOURCE
#include <alloca.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))
static volatile unsigned long sink;
static int nothing[2]; // a pipe that nobody writes to
static int listener;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER, mine = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwheld = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t empty;
static atomic_int parked;

NOINLINE void park(void) { parked++; pause(); sink++; }

NOINLINE void read_leaf(void) { char b[8]; parked++; sink += read(nothing[0], b, 8); }
NOINLINE void read_mid(int n) { char pad[100]; memset(pad, n, sizeof pad); read_leaf(); sink += pad[n]; }
NOINLINE void in_read(void) { read_mid(3); sink++; }

NOINLINE void spin_leaf(unsigned long n) { parked++; for (;;) { sink += n; n ^= sink; } }
NOINLINE void in_spin(void) { spin_leaf(1); sink++; }

NOINLINE void lock_it(void) { parked++; pthread_mutex_lock(&held); sink++; }
NOINLINE void in_mutex(void) { lock_it(); sink++; }
NOINLINE void in_rwlock(void) { parked++; pthread_rwlock_wrlock(&rwheld); sink++; }
NOINLINE void in_cond(void) { pthread_mutex_lock(&mine); parked++; for (;;) pthread_cond_wait(&never, &mine); }
NOINLINE void in_sem(void) { parked++; for (;;) sem_wait(&empty); }
NOINLINE void in_sleep(void) { struct timespec t = {1000, 0}; parked++; nanosleep(&t, 0); sink++; }
NOINLINE void in_poll(void) { struct pollfd p = {nothing[0], POLLIN, 0}; parked++; poll(&p, 1, -1); sink++; }
NOINLINE void in_epoll(void) { struct epoll_event e; int fd = epoll_create1(0); parked++; epoll_wait(fd, &e, 1, -1); sink++; }
NOINLINE void in_accept(void) { parked++; accept(listener, 0, 0); sink++; }

NOINLINE int deep(int n) {
	char pad[64];
	memset(pad, n, sizeof pad);
	if (n == 0) {
		park();
		return 1;
	}
	return deep(n - 1) + pad[n & 63];
}
NOINLINE void in_deep(void) { sink += deep(199); }

// A frame whose size is known only at run time, and one that is realigned.
NOINLINE void vary(int n) { char *p = alloca(n); memset(p, 1, n); park(); sink += p[n - 1]; }
NOINLINE void align(int n) { char big[64] __attribute__((aligned(64))); memset(big, n, 64); vary(100 + n); sink += big[n]; }
NOINLINE void in_aligned(void) { align(33); sink++; }

// Back from the library: user code below system code.
NOINLINE int compare(const void *a, const void *b) { park(); return *(int *)a - *(int *)b; }
NOINLINE void in_callback(void) { int v[2] = {2, 1}; qsort(v, 2, sizeof v[0], compare); sink += v[0]; }

NOINLINE void handle(int s) { park(); sink += s; }
NOINLINE void raise_it(int s) { pthread_kill(pthread_self(), s); sink++; }
NOINLINE void in_signal(void) { raise_it(SIGUSR1); sink++; }
NOINLINE void in_altsignal(void) {
	stack_t st = {.ss_sp = malloc(65536), .ss_size = 65536};
	sigaltstack(&st, 0);
	raise_it(SIGUSR2);
	sink++;
}
// A signal in the middle of nowhere: at the first instruction of a function.
NOINLINE void fault(void) { __asm__ volatile("ud2"); }
NOINLINE void in_fault(void) { fault(); sink++; }

// On a stack of its own.
static ucontext_t host, guest;
NOINLINE void on_coroutine(void) { park(); sink++; }
NOINLINE void in_coroutine(void) {
	getcontext(&guest);
	guest.uc_stack.ss_sp = malloc(65536), guest.uc_stack.ss_size = 65536, guest.uc_link = &host;
	makecontext(&guest, on_coroutine, 0);
	swapcontext(&host, &guest);
	sink++;
}

#define SHAPES(X) X(read) X(spin) X(mutex) X(rwlock) X(cond) X(sem) X(sleep) X(poll) X(epoll) X(accept) X(deep) \
	X(aligned) X(callback) X(signal) X(altsignal) X(fault) X(coroutine)
#define THREAD(name) static void *thread_##name(void *p) { prctl(PR_SET_NAME, #name); in_##name(); return p; }
SHAPES(THREAD)

NOINLINE static void child_body(const char *name) { prctl(PR_SET_NAME, name); park(); }

int main(int argc, char **argv) {
	const char *options = argc > 1 ? argv[1] : "";
	if (strchr(options, 'p')) getchar(); // for probes to be attached
	if (pipe(nothing)) return 1;
	struct sockaddr_in a = {.sin_family = AF_INET};
	listener = socket(AF_INET, SOCK_STREAM, 0);
	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(listener, (void *)&a, sizeof a) || listen(listener, 1)) return 1;
	sem_init(&empty, 0, 0);
	pthread_mutex_lock(&held);
	pthread_rwlock_wrlock(&rwheld);
	struct sigaction sa = {.sa_handler = handle};
	sigaction(SIGUSR1, &sa, 0);
	sigaction(SIGILL, &sa, 0);
	sa.sa_flags = SA_ONSTACK;
	sigaction(SIGUSR2, &sa, 0);

	int want = 0;
	pthread_t t;
#define START(name) want++; pthread_create(&t, 0, thread_##name, 0);
	SHAPES(START)
	while (parked < want) usleep(1000);
	usleep(50000); // from the count into the system call
	pid_t forked = fork();
	if (forked == 0) child_body("forked");
	printf("%d\n", forked);
	fflush(stdout);
	if (strchr(options, 'v') && vfork() == 0) { child_body("vforked"); _exit(0); } // shares our memory; we wait for it
	pause();
}
