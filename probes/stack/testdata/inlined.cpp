// Threads that wait in calls that are compiled into others, three deep.
#include <cstdio>
#include <unistd.h>

namespace shop {

struct Basket {
	long n;
	inline __attribute__((always_inline)) long wait() const
	{
		long r = pause();
		return r + n;
	}
};

namespace {
inline __attribute__((always_inline)) long checked(const Basket &b)
{
	if (b.n < 0)
		return 0;
	return b.wait() * 2;
}
} // namespace

template <typename T> inline __attribute__((always_inline)) long total(const T &b)
{
	return checked(b) - 1;
}

__attribute__((noinline)) long checkout(const Basket &b)
{
	return total(b) % 7;
}

} // namespace shop

__attribute__((noinline)) static long serve(long n)
{
	shop::Basket b{n};
	return shop::checkout(b) + 1;
}

int main(int argc, char **)
{
	std::puts("ready");
	std::fflush(stdout);
	return serve(argc) == 3;
}
