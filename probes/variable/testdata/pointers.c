/* Variables behind pointers, written as the input says: a line is a command, and is
 * answered when it is done. It is C and C++. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct node { int id; struct node *next; int list[4]; const char *label; double load; };

struct node nodes[3];
struct node *head = &nodes[0];
struct holder { long pad; struct node *items[2]; } holder, *held = &holder;
static long numbers[2][5] = {{10, 11, 12, 13, 14}, {20, 21, 22, 23, 24}};
long *table = numbers[0];
struct node *volatile wild;

static struct node *at(int n) { return n < 0 ? 0 : n > 2 ? (struct node *)8 : &nodes[n]; }

__attribute__((noinline)) void aim(int n) { head = at(n); }
__attribute__((noinline)) void number(int n) { head->id = n; }
__attribute__((noinline)) void other(int n) { nodes[1].id = n; }
__attribute__((noinline)) void link_to(int n) { head->next = at(n); }
__attribute__((noinline)) void deep(int n) { head->next->id = n; }
__attribute__((noinline)) void element(int n) { head->list[2] = n; }
__attribute__((noinline)) void row(int n) { table = numbers[n]; }
__attribute__((noinline)) void cell(int n) { table[3] = n; }
__attribute__((noinline)) void hold(int n) { held->items[1] = at(n); }
__attribute__((noinline)) void name(int n) { head->label = n ? "long" : "short"; }

__attribute__((noinline)) void leave(int n) { (void)*(volatile int *)&n; }

static pthread_t worker;
static int work[2], done[2];
static void *in_worker(void *p) {
	int n;
	while (read(work[0], &n, sizeof n) == sizeof n) { number(n); (void)!write(done[1], "", 1); }
	return p;
}
static void *once(void *p) { number((int)(long)p); return 0; }

static volatile int busy;
static void *run(void *p) {
	for (long i = 0; busy; i++) { aim(i % 3); usleep(20); }
	return p;
}

int main(void) {
	char line[100], c;
	pthread_t t;
	if (pipe(work) || pipe(done)) return 1;
	for (int i = 0; i < 3; i++) { nodes[i].id = 100 + i; nodes[i].next = &nodes[(i + 1) % 3]; nodes[i].list[2] = 70 + i; nodes[i].load = i / 4.0; }
	pthread_create(&worker, 0, in_worker, 0);
	puts("1"); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int n = atoi(line + 1);
		switch (line[0]) {
		case 'h': aim(n); break;
		case 'i': number(n); break;
		case 'o': other(n); break;
		case 'x': link_to(n); break;
		case 'y': deep(n); break;
		case 'e': element(n); break;
		case 't': row(n); break;
		case 'c': cell(n); break;
		case 'k': hold(n); break;
		case 'l': name(n); break;
		case 'q': leave(n); break;
		case 'w': (void)!write(work[1], &n, sizeof n); (void)!read(done[0], &c, 1); break; /* another thread */
		case 'n': pthread_create(&t, 0, once, (void *)(long)n); pthread_join(t, 0); break;  /* a new one */
		case 'z': /* the pointer changes all the time while what it leads to is written */
			busy = 1;
			pthread_create(&t, 0, run, 0);
			for (int i = 1; i <= n; i++) { other(i); usleep(50); }
			busy = 0;
			pthread_join(t, 0);
			aim(1);
			break;
		}
		puts("1"); fflush(stdout);
	}
}
