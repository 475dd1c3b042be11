// Calls are under way when somebody begins to look: of main, which reads its input,
// and of a thread, which waits within two calls. Each line of input is a step.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <pthread.h>

#define OUTLINE __attribute__((noinline))

static std::mutex lock;
static std::condition_variable changed;
static int steps;
static volatile int sink;

OUTLINE int leaf(int n) { sink = n; return sink + 1; }

OUTLINE int await(int n)
{
	std::unique_lock<std::mutex> held(lock);
	changed.wait(held, [n] { return steps >= n; });
	sink = n;
	return sink;
}

struct Worker {
	virtual ~Worker() {}
	virtual int run();
	virtual int job(int n);
};

// Waits, calls another one when it goes on, and waits again.
OUTLINE int Worker::job(int n)
{
	int a = await(n);
	a += leaf(a);
	a += await(n + 1);
	sink = a;
	return a;
}

OUTLINE int Worker::run()
{
	int a = 0;
	for (int i = 1; i < 20; i += 2)
		a += job(i);
	return a;
}

static void work()
{
	pthread_setname_np(pthread_self(), "worker");
	Worker w;
	sink = w.run();
}

static bool step(const char *done)
{
	puts(done);
	fflush(stdout);
	return getchar() != EOF;
}

OUTLINE int serve()
{
	int n = 0;
	while (step(n ? "done" : "ready")) {
		{
			std::lock_guard<std::mutex> held(lock);
			steps++;
		}
		changed.notify_all();
		n = leaf(n);
	}
	return n;
}

int main()
{
	std::thread t(work);
	serve();
	_Exit(0);
}
