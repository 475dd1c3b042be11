// fork, vfork, clone and posix_spawn in the middle of calls; exec, exit, _exit,
// abort and a fatal signal there; what runs at exit.
//
// build: -O1
// more: -O2 -fcf-protection=full
// more: -O2 -s
// more: -O1 -static
// modules: libc.so.6
#define OWN_MAIN
#include "suite.h"
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static long rounds;
static char *self;

FN long work(long n) { CALLED(work); sink += n; return n == 0 ? 0 : kept(1 + work(n - 1)); }

FN int ended(pid_t pid)
{
	CALLED(ended);
	int status = -1;
	waitpid(pid, &status, 0);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* The child returns from the calls that the parent entered. */
FN pid_t split(long n)
{
	CALLED(split);
	pid_t pid = n > 0 ? split(n - 1) : fork();
	sink++;
	return pid;
}
FN int forking(void)
{
	CALLED(forking);
	pid_t pid = split(10);
	if (pid == 0)
		_exit(work(3) + 4);
	return ended(pid);
}
FN int generations(long n)
{
	CALLED(generations);
	pid_t pid = split(2);
	if (pid == 0)
		_exit(n > 0 ? generations(n - 1) + 1 : (int)work(1));
	return ended(pid);
}

/* The child runs on its parent's stack while the parent waits. */
FN void in_child(long n) { CALLED(in_child); if (n > 0) { in_child(n - 1); sink++; return; } work(4); }
FN int vforking(int exec)
{
	CALLED(vforking);
	char *argv[] = {self, "child", 0};
	pid_t pid = vfork();
	if (pid == 0) {
		in_child(5);
		if (exec)
			execv(self, argv);
		_exit(6);
	}
	work(2);
	return ended(pid);
}
FN long vforking_deep(long n) { CALLED(vforking_deep); return n > 0 ? kept(vforking_deep(n - 1) + 1) : vforking(0); }

FN int spawning(void)
{
	CALLED(spawning);
	extern char **environ;
	char *argv[] = {self, "child", 0};
	pid_t pid;
	return posix_spawn(&pid, self, 0, 0, argv, environ) ? -1 : ended(pid);
}
FN int shell(void)
{
	CALLED(shell);
	int status = system("exit 5");
	return WEXITSTATUS(status);
}

static int in_clone(void *n) { in_child(3); return (int)work((long)n); }
FN int cloning(int flags)
{
	CALLED(cloning);
	char *stack = malloc(64 << 10);
	int status = ended(clone(in_clone, stack + (64 << 10), flags | SIGCHLD, (void *)7));
	free(stack);
	return status;
}

enum { EXEC, EXIT, QUICK, UNDERSCORE, ABORT, KILL, FAULT, RETURN, WAYS };
static volatile int at_exit_says;
FN void at_exit(void) { CALLED(at_exit); if (at_exit_says) _exit((int)work(9)); }
FN long leave(int way, long n)
{
	CALLED(leave);
	char *argv[] = {self, "child", 0};
	if (n > 0)
		return kept(leave(way, n - 1) + 1);
	switch (way) {
	case EXEC:
		execv(self, argv);
		break;
	case EXIT:
		exit(1);
	case QUICK:
		quick_exit(1);
	case UNDERSCORE:
		_exit(2);
	case ABORT:
		abort();
	case KILL:
		raise(SIGTERM);
		break;
	case FAULT:
		*(volatile int *)0 = 1;
	}
	return 0;
}
FN int leaving(int way)
{
	CALLED(leaving);
	pid_t pid = fork();
	if (pid == 0) {
		struct rlimit none = {0, 0};
		setrlimit(RLIMIT_CORE, &none);
		at_exit_says = 1;
		leave(way, 7);
		_exit(3);
	}
	return ended(pid);
}

static void act(void)
{
	say("fork %d, generations %d\n", forking(), generations(3));
	say("vfork %d, with exec %d, deep %ld\n", vforking(0), vforking(1), vforking_deep(20));
	say("posix_spawn %d, system %d\n", spawning(), shell());
	say("clone %d, sharing memory %d\n", cloning(0), cloning(CLONE_VM | CLONE_VFORK));
	for (int way = 0; way < WAYS; way++)
		say("way %d: %d\n", way, leaving(way));
}

/* The end of the program itself is in the middle of calls. */
FN void over(long n) { CALLED(over); if (n > 0) { over(n - 1); sink++; return; } exit(0); }
static FN void print_at_end(void) { print_all(rounds); }

int main(int argc, char **argv)
{
	self = "/proc/self/exe";
	open_counts();
	if (argc > 1 && !strcmp(argv[1], "child"))
		return (int)work(11);
	atexit(print_at_end); /* runs last */
	atexit(at_exit);
	at_quick_exit(at_exit);
	rounds = argc > 1 ? atol(argv[1]) : 1;
	for (long n = 0; rounds ? n < rounds : n == 0 || !told_to_end(); n++) {
		said_bytes = 0;
		act();
		if (n == 0) {
			strcpy(first, said);
			puts("running");
			fflush(stdout);
		} else if (strcmp(first, said)) {
			printf("round %ld differs:\n%s\n", n, said);
			return 70;
		}
	}
	over(9);
}
