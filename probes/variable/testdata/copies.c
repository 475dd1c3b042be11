// part is inlined at two places, and called through a pointer, too. Of guarded, what is
// rarely executed lies apart.
#include <stdio.h>

volatile long sink;

static long part(long n) {
	long half = n / 2;
	sink += half;
	return half + sink;
}

static long (*volatile keep)(long) = part;

__attribute__((cold, noinline)) static void complain(long n) {
	printf("%ld\n", n);
}

__attribute__((noinline)) static long guarded(long n) {
	long k = n * 3 + sink;
	if (k > 1000) {
		complain(k);
		k -= sink;
		complain(k);
		k += sink;
	}
	sink += k;
	return k;
}

int main(void) {
	puts("ready");
	fflush(stdout);
	for (int c; (c = getchar()) != EOF;) {
		sink += part(c);
		if (c == '+')
			sink += part(c + 1);
		sink += keep(c) + guarded(c);
	}
	return 0;
}
