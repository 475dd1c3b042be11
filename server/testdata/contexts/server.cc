/* A server whose threads have coroutines (ucontext). Each coroutine serves requests one after
 * the other, switches in the middle of them, and fails in every third. It writes its own log:
 * the function, the number of the call, and the request. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline, noclone))

static const int threads = 10, coroutines = 10, rounds = 3, functions = 10;

static std::atomic<long> calls;
static struct entry {
	int function;
	char id[32];
} entries[1 << 16];

struct worker {
	ucontext_t main, co[coroutines];
	bool done[coroutines];
	int running, thread;
};
static thread_local worker *self;

static void yield() { worker *w = self; swapcontext(&w->co[w->running], &w->main); }

static void note(int function, long n, const char *id) {
	entries[n].function = function;
	strcpy(entries[n].id, id);
	if (function % 3 == 1) yield();
}

#define WORK(i) extern "C" NOINLINE void work##i(long n, const char *id) { note(i, n, id); asm volatile(""); }
WORK(0) WORK(1) WORK(2) WORK(3) WORK(4) WORK(5) WORK(6) WORK(7) WORK(8) WORK(9)
static void (*const works[functions])(long, const char *) = {work0, work1, work2, work3, work4, work5, work6, work7, work8, work9};

extern "C" NOINLINE void handle(const char *id, int fails) {
	for (int i = 0; i < functions; i++) works[i](calls++, id);
	if (fails) throw std::runtime_error("failed");
	asm volatile("");
}

extern "C" NOINLINE void outside() { long n = calls++; works[n % functions](n, ""); }

static void serve(int co) {
	for (int r = 0; r < rounds; r++) {
		char id[32];
		snprintf(id, sizeof id, "%d-%d-%d", self->thread, co, r);
		try {
			handle(id, r % 3 == 0);
		} catch (const std::exception &) {
		}
		outside();
		yield();
	}
	self->done[co] = true;
	yield();
}

static void run(int t) {
	worker *w = new worker();
	self = w;
	w->thread = t;
	for (int i = 0; i < coroutines; i++) {
		getcontext(&w->co[i]);
		w->co[i].uc_stack.ss_sp = malloc(256 << 10);
		w->co[i].uc_stack.ss_size = 256 << 10;
		w->co[i].uc_link = &w->main;
		makecontext(&w->co[i], (void (*)())serve, 1, i);
	}
	for (int left = coroutines; left > 0;)
		for (int i = 0; i < coroutines; i++) {
			if (w->done[i]) continue;
			w->running = i;
			swapcontext(&w->main, &w->co[i]);
			left -= w->done[i];
		}
}

int main(int, char **argv) {
	puts("ready");
	fflush(stdout);
	getchar();
	std::vector<std::thread> all;
	for (int t = 0; t < threads; t++) all.emplace_back(run, t);
	for (auto &t : all) t.join();
	FILE *f = fopen(argv[1], "w");
	for (long n = 0; n < calls; n++) fprintf(f, "work%d %ld %s\n", entries[n].function, n, entries[n].id);
	fclose(f);
}
