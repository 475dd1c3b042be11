// An exception that passes through a C library: it is thrown by a callback that
// the library calls, and caught by the library's caller.
//
// library: libthrough.so through_library.c -O2
// build: -O1 -L. -lthrough
// modules: libthrough.so
#include "suite.h"
#include <stdexcept>

extern "C" long through_walk(long n, long (*visit)(long));
extern "C" long through_leaf(long n);

extern "C" FN long visit(long n)
{
	CALLED(visit);
	sink += n;
	if (n == 7)
		throw std::runtime_error("seven");
	return n;
}

extern "C" FN long walk(long n)
{
	CALLED(walk);
	try {
		return through_walk(n, visit);
	} catch (const std::exception &e) {
		return -through_leaf(n);
	}
}

static void act()
{
	say("walked %ld %ld %ld\n", walk(5), walk(20), walk(6));
}
