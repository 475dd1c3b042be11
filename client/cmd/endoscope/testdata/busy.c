/* A target with 128 functions, f0 to f127: it calls each once; without an
 * argument it goes on calling them, in eight processes, until it is killed. */
#include <unistd.h>
#include <sys/prctl.h>
#include <signal.h>

static volatile long sink;
#define F(n) __attribute__((noinline)) void f##n(void) { sink += n; }
#define G(n) f##n();
#define EIGHT(M, n) M(n##0) M(n##1) M(n##2) M(n##3) M(n##4) M(n##5) M(n##6) M(n##7)
#define ALL(M) EIGHT(M, ) EIGHT(M, 1) EIGHT(M, 2) EIGHT(M, 3) EIGHT(M, 4) EIGHT(M, 5) EIGHT(M, 6) EIGHT(M, 7) \
	EIGHT(M, 8) EIGHT(M, 9) EIGHT(M, 10) EIGHT(M, 11) EIGHT(M, 12) EIGHT(M, 13) EIGHT(M, 14) EIGHT(M, 15)
ALL(F)

int main(int argc, char **argv)
{
	if (argc == 1)
		for (int i = 0; i < 7; i++)
			if (fork() == 0) {
				prctl(PR_SET_PDEATHSIG, SIGKILL);
				break;
			}
	do {
		ALL(G)
	} while (argc == 1);
	return 0;
}
