/* Requests that begin and end in functions of their own, in several ways. work is called with
 * the request that it is inside of, 0 for none. */
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <stdexcept>

#define NOINLINE __attribute__((noinline, noclone))

extern "C" {
NOINLINE void begin_request(long id) { asm volatile("" ::"r"(id)); }
NOINLINE void end_request() { asm volatile(""); }
NOINLINE long next_job(long *last) { long id = ++*last; asm volatile("" : "+r"(id)); return id; }
NOINLINE void work(long id) { asm volatile("" ::"r"(id)); }
NOINLINE void job_work(long id) { asm volatile("" ::"r"(id)); }
NOINLINE void nested(long id) {
	begin_request(id + 1000);
	work(id + 1000);
	if (id % 2) throw std::runtime_error("the end is skipped");
	end_request();
}
NOINLINE void serve(long id) {
	begin_request(id);
	work(id);
	try {
		nested(id);
	} catch (const std::exception &) {
	}
	work(id);
	if (id % 3 == 0) throw std::runtime_error("the end is skipped");
	end_request();
	work(0);
}
static jmp_buf back;
NOINLINE void deep(long id, long n) {
	work(id);
	if (n > 0) deep(id, n - 1);
	else if (id % 2) longjmp(back, 1);
	asm volatile("");
}
NOINLINE void call(long id) {
	deep(id, 3);
	if (id < 100) call(id + 100);
	work(id);
}
NOINLINE void loop() {
	for (long id = 1; id <= 30; id++) {
		try {
			serve(id);
		} catch (const std::exception &) {
		}
		work(0);
	}
}
NOINLINE void calls() {
	for (volatile long id = 1; id <= 30; id++) {
		if (!setjmp(back)) call(id);
		work(0);
	}
}
NOINLINE void jobs() {
	long last = 0;
	for (int i = 1; i <= 5; i++) job_work(next_job(&last));
}
NOINLINE void deeper(long id) {
	if (id < 12) deeper(id + 1);
	work(id > 8 ? 8 : id);
	asm volatile("");
}
NOINLINE void keep(const char *key) { void *p = malloc(4321); asm volatile("" : "+r"(p)); free(p); }
}

int main(int argc, char **argv) {
	puts("ready");
	fflush(stdout);
	getchar();
	switch (argv[1][0]) {
	case 'l': loop(); break;
	case 'c': calls(); break;
	case 'j': jobs(); break;
	case 'd': deeper(1); break;
	case 'k':
		keep("short");
		keep("0123456789012345678901234567890123456789012345678901234567890123456789");
		keep(NULL);
		void *outside = malloc(4321);
		asm volatile("" : "+r"(outside));
		free(outside);
	}
}
