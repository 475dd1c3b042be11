// Each line of input is a round: a thread calls a method of an object many times,
// within another one's, and says how long a call took it, in CPU time, ns.
#include <cstdio>
#include <ctime>
#include <pthread.h>
#include <thread>

#define OUTLINE __attribute__((noinline))

struct Square {
	explicit Square(int side);
	virtual ~Square();
	virtual int area(int n);
	int side;
};

OUTLINE Square::Square(int side) : side(side) {}
OUTLINE Square::~Square() { side = 0; }
// Saves a register, since it calls another function.
OUTLINE int Square::area(int n) { return side * n + (pthread_self() == 0); }

static const int calls = 50000;
static volatile int sink;

OUTLINE void round_of(Square *s)
{
	for (int i = 0; i < calls; i++)
		sink = s->area(i);
}

static void work()
{
	pthread_setname_np(pthread_self(), "worker");
	Square s(3);
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {
		timespec a, b;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
		round_of(&s);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
		printf("%ld\n", ((b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec) / calls);
		fflush(stdout);
	}
}

int main()
{
	std::thread t(work);
	t.join();
}
