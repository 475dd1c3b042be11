/* Variables of each kind, written as its input says: a line is a command, and is
 * answered when it is done. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum color { RED, GREEN = 5, BLUE };
struct point { int x; short y; char tag[12]; unsigned flag : 1; struct { long deep; }; };

long total;
static volatile int hidden = 3;
enum color shade;
double ratio = 0.5;
float narrow = 0.25f;
struct point where = {1, 2, "here", 1, {7}};
struct point *there = &where;
int list[4] = {10, 11, 12, 13};
unsigned char small = 200;
_Bool yes = 1;
__thread int own;

__attribute__((noinline)) static int counted(void) { static volatile int calls; return ++calls; }
__attribute__((noinline)) void add(long n) { total += n; }
__attribute__((noinline)) void paint(enum color c) { shade = c; }
__attribute__((noinline)) void move(int x) { where.x = x; where.deep = -x; }
__attribute__((noinline)) void measure(double r) { ratio = r; }
__attribute__((noinline)) void hide(int n) { hidden = n; }

static pthread_t worker;
static int work[2], done[2];
static void *in_worker(void *p) {
	long n;
	while (read(work[0], &n, sizeof n) == sizeof n) { add(n); (void)!write(done[1], "", 1); }
	return p;
}
static void *once(void *p) { add((long)p); return 0; }

int main(void) {
	char line[100];
	if (pipe(work) || pipe(done)) return 1;
	pthread_create(&worker, 0, in_worker, 0);
	puts("1"); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		long n = atol(line + 1);
		char c;
		pthread_t t;
		switch (line[0]) {
		case 'a': add(n); break;
		case 'p': paint(n); break;
		case 'm': move(n); break;
		case 'r': measure(n / 4.0); break;
		case 'h': hide(n); break;
		case 'c': counted(); break;
		case 's': strcpy(where.tag, "moved"); break;
		case 'w': (void)!write(work[1], &n, sizeof n); (void)!read(done[0], &c, 1); break; /* another thread */
		case 'n': pthread_create(&t, 0, once, (void *)n); pthread_join(t, 0); break;   /* a new one */
		case 'f': if (!fork()) { add(n); _exit(0); } wait(0); break;                   /* a child */
		case 'e': line[strcspn(line, "\n")] = 0; execl(line + 1, line + 1, (char *)0); return 1; /* another program */
		}
		puts("1"); fflush(stdout);
	}
}
