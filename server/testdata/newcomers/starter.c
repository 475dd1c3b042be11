/* Calls work, and has another program call it, which it starts in one of the ways that
 * there are: starter work N, or starter WAY PROGRAM N. */
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define kept __attribute__((noinline, noipa))

extern char **environ;
volatile long sink;
static char *next[4];

kept long work(long n) { return sink += n; }
kept void launch(void) { execve(next[0], next, environ); _exit(3); }

static void *begins(void *unused)
{
	for (int i = 0; i < 5; i++)
		work(i);
	launch();
	return unused;
}

static int child(int (*start)(void))
{
	int status = 0;
	if (start() < 0 || waitpid(-1, &status, 0) < 0)
		return -1;
	work(1);
	work(2);
	return WEXITSTATUS(status);
}
static void inside(void)
{
	for (int i = 0; i < 3; i++)
		work(i);
	launch();
}
static int by_fork(void) { int pid = fork(); if (pid == 0) inside(); return pid; }
static int by_vfork(void) { int pid = vfork(); if (pid == 0) inside(); return pid; }
static int by_spawn(void) { pid_t pid; return posix_spawn(&pid, next[0], NULL, NULL, next, environ) ? -1 : pid; }

int main(int argc, char **argv)
{
	char line[8];
	if (argc == 3) {
		for (long i = 0; i < atol(argv[2]); i++)
			work(i);
		return 0;
	}
	next[0] = argv[2], next[1] = "work", next[2] = argv[3];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	if (!strcmp(argv[1], "fork"))
		return child(by_fork);
	if (!strcmp(argv[1], "vfork"))
		return child(by_vfork);
	if (!strcmp(argv[1], "posix_spawn"))
		return child(by_spawn);
	if (!strcmp(argv[1], "exec"))
		begins(NULL);
	pthread_t t;
	pthread_create(&t, NULL, begins, NULL);
	pthread_join(t, NULL);
	return 2;
}
