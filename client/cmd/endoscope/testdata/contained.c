/* Calls handle until SIGTERM, from when /log/go exists, and appends the number of calls to
 * /log/NAME. NAME is its first argument; without one it only waits. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void on_term(int sig) { stop = sig; }

__attribute__((noinline)) long handle(long n)
{
	__asm__ volatile("" : "+r"(n));
	return n + 1;
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_term};
	char path[200], line[40];
	long calls = 0;
	int fd;

	sigaction(SIGTERM, &action, NULL);
	while (!stop && (argc < 2 || access("/log/go", F_OK)))
		usleep(1000);
	while (!stop) {
		calls = handle(calls);
		usleep(500);
	}
	if (argc < 2)
		return 0;
	snprintf(path, sizeof(path), "/log/%s", argv[1]);
	snprintf(line, sizeof(line), "%ld\n", calls);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
	return write(fd, line, strlen(line)) != (ssize_t)strlen(line);
}
