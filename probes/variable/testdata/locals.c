/* Variables of functions: a line of input is a number, for which all is computed once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum color { RED, GREEN = 5, BLUE };
long served;
struct request { int id; const char *path; struct request *next; double weight; };

__attribute__((noinline)) long fib(long n) {
	if (n < 2)
		return n;
	long a = fib(n - 1);
	long b = fib(n - 2);
	return a + b;
}

__attribute__((noinline)) int collatz(unsigned start) {
	unsigned n = start;
	int steps = 0;
	while (n != 1) {
		if (n % 2)
			n = 3 * n + 1;
		else
			n /= 2;
		steps++;
	}
	return steps;
}

__attribute__((noinline)) double serve(struct request *r, enum color c, char tag[]) {
	double sum = 0.5;
	char name[16] = "?";
	for (int i = 0; i < 3; i++) {
		int id = r->id + i;
		sum += id * r->weight;
		served += id;
	}
	snprintf(name, sizeof name, "%s-%d", tag, c);
	r = r->next;
	sum += name[0];
	return sum;
}

int main(void) {
	char line[100];
	struct request second = {2, "/second", 0, 0.25}, first = {1, "/first", &second, 1.5};
	puts("1");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int n = atoi(line);
		first.id = n;
		double s = serve(&first, n > 5 ? BLUE : RED, "tag");
		printf("%ld %d %g\n", fib(n), collatz(n), s);
		fflush(stdout);
	}
}
