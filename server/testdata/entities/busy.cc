// Threads that come and go, make objects of several classes at addresses that are
// used again, call each other's methods, and share a queue, a table and a mutex each
// in its turn.
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <queue>
#include <shared_mutex>
#include <thread>
#include <unistd.h>
#include <vector>

#define OUTLINE __attribute__((noinline))

struct Shape {
	virtual ~Shape() {}
	virtual int area(int depth) = 0;
};

struct Square : Shape {
	explicit Square(int side);
	~Square() override;
	int area(int depth) override;
	int side;
};

struct Group : Shape {
	explicit Group(int n);
	~Group() override;
	int area(int depth) override;
	std::vector<std::unique_ptr<Shape>> parts;
};

OUTLINE Square::Square(int side) : side(side) {}
OUTLINE Square::~Square() { side = 0; }
OUTLINE Group::~Group() {}
OUTLINE int Square::area(int) { return side * side; }

OUTLINE Group::Group(int n)
{
	for (int i = 0; i < n; i++)
		parts.emplace_back(new Square(i));
}

OUTLINE int Group::area(int depth)
{
	int sum = 0;
	for (auto &p : parts)
		sum += p->area(depth + 1);
	return sum;
}

struct Thrower {
	explicit Thrower(int n);
	~Thrower();
	int n;
};

OUTLINE Thrower::Thrower(int n) : n(n)
{
	if (n % 3 == 0)
		throw n;
}

OUTLINE Thrower::~Thrower() { n = 0; }

static std::mutex one, two;
static std::shared_mutex table;
static std::condition_variable filled;
static std::queue<int> jobs;
static std::atomic<bool> over;
static std::atomic<long> done;

OUTLINE static int work(int i)
{
	int got = 0;
	try {
		Thrower t(i);
		got = t.n;
	} catch (int) {
	}
	std::unique_ptr<Shape> s(i % 2 ? static_cast<Shape *>(new Square(i)) : new Group(i % 5));
	{
		std::lock_guard<std::mutex> a(one);
		std::lock_guard<std::mutex> b(two);
		got += s->area(0);
	}
	if (i % 4) {
		std::shared_lock<std::shared_mutex> r(table);
		got++;
	} else {
		std::unique_lock<std::shared_mutex> w(table);
		got--;
	}
	done++;
	return got;
}

static long pause_us = 2000;

static void worker(int n)
{
	char name[16];
	snprintf(name, sizeof name, "worker%d", n);
	pthread_setname_np(pthread_self(), name);
	for (int i = 0; !over; i++) {
		{
			std::unique_lock<std::mutex> l(one);
			filled.wait_for(l, std::chrono::milliseconds(20), [] { return !jobs.empty() || over; });
			if (!jobs.empty())
				jobs.pop();
		}
		work(n * 1000 + i);
		usleep(pause_us);
	}
}

static void visitor(int n)
{
	pthread_setname_np(pthread_self(), "visitor");
	for (int i = 0; i < 5; i++)
		work(n + i);
}

int main(int argc, char **argv)
{
	long turns = argc > 1 ? atol(argv[1]) : 1 << 30;
	if (argc > 2)
		pause_us = atol(argv[2]);
	std::vector<std::thread> workers;
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	for (int i = 0; i < 3; i++)
		workers.emplace_back(worker, i);
	for (long i = 0; i < turns; i++) {
		{
			std::lock_guard<std::mutex> l(one);
			jobs.push(i);
		}
		filled.notify_one();
		if (i % 8 == 0)
			std::thread(visitor, i).join();
		usleep(pause_us * 3 / 2);
	}
	over = true;
	filled.notify_all();
	for (auto &w : workers)
		w.join();
	printf("%ld\n", done.load());
	return 0;
}
