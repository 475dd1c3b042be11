// Functions that do not read all that they are passed, and callers that do not read what
// they return. Arguments are passed what their names say: a is 1001, b 1002, ...
#include <cstdio>
#include <cstdlib>
#define apart __attribute__((noinline))

static volatile long base = 1000;
static volatile long sink;
struct Pair { long x, y; };

extern "C" {
apart long global_(long a, long b) { return sink = b, b + 1; }
apart static long static_(long a, long b) { return sink = b + sink, b + 2; }
apart static long pointed(long a, long b) { return sink = b - 1, b + 3; }
apart static long dropped(long a, long b) { return sink = a ^ b, a + b; }
apart static long used(long a, long b) { return sink = a + b, a * b; }
apart static long passed_on(long a, long b) { return sink = 1, used(a, b); }
apart static long escaping(long a, long b, long c)
{
	asm volatile("" : : "r"(&b), "r"(&c) : "memory");
	return b + c;
}
apart static long part(struct Pair p, long a) { return sink = p.y, a + p.y; }
apart long many(long a, long b, long c, long d, long e, long f, long g, long h) { return sink = h, c + h; }
apart void *wrapped(long a) { return malloc(a); }
apart static long constant(long a, long b) { return sink = b, 7; }
apart static int always(long a) { return sink = a, 9; }
}

struct Shelf {
	long room = 5;
	apart long put(long a, long b) { return sink = b, b + 4; }
	apart long take(long a) { return sink = room, room += a; }
	apart static long make(long a, long b) { return sink = a, a + 5; }
};

template <class T> apart T either(T a, T b) { return sink = b, b + 6; }

int main()
{
	puts("ready");
	fflush(stdout);
	getchar();
	Shelf shelf;
	long (*volatile at)(long, long) = pointed;
	for (int i = 0; i < 3; i++) {
		long a = base + 1, b = base + 2, c = base + 3, h = base + 8;
		Pair p = {base + 20, base + 21};
		long n = global_(a, b);
		n += static_(base + 1, base + 2);
		n += at(base + 1, base + 2);
		n += pointed(base + 1, base + 2);
		dropped(base + 1, base + 2);
		n += used(a, b);
		n += passed_on(base + 1, base + 2);
		n += escaping(base + 1, b, c);
		n += part(p, a);
		n += many(a, b, c, base + 4, base + 5, base + 6, base + 7, h);
		free(wrapped(base + 1));
		n += constant(base + 1, base + 2);
		n += always(base + 1);
		shelf.room = 5;
		n += shelf.put(base + 1, base + 2);
		shelf.room = 5;
		shelf.take(base + 1);
		Shelf::make(base + 1, base + 2);
		n += either<long>(base + 1, base + 2);
		sink = n;
	}
	return 0;
}
