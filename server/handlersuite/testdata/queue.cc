// A server as C++ has them: a queue with a condition variable, handlers in
// std::function by the kind of a message, a thread pool, and a timer.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#define NOINLINE __attribute__((noinline))

static volatile unsigned long sink;

static NOINLINE void burn(int us)
{
	timespec a, b;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	do {
		for (int i = 0; i < 1000; i++)
			sink = sink + i;
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	} while ((b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000 < us);
}

struct Message {
	std::string kind;
	int size;
};

template <class T> class Queue {
	std::mutex mutex;
	std::condition_variable arrived;
	std::deque<T> items;

public:
	NOINLINE T pop()
	{
		std::unique_lock<std::mutex> lock(mutex);
		arrived.wait(lock, [&] { return !items.empty(); });
		T first = std::move(items.front());
		items.pop_front();
		return first;
	}
	bool idle()
	{
		std::lock_guard<std::mutex> lock(mutex);
		return items.empty();
	}
	NOINLINE void push(T item)
	{
		std::lock_guard<std::mutex> lock(mutex);
		items.push_back(std::move(item));
		arrived.notify_one();
	}
};

class Server {
	std::map<std::string, std::function<void(const Message &)>> handlers;

public:
	Queue<Message> inbox;
	NOINLINE void on_login(const Message &m) { burn(1500); sink = sink + m.size; }
	NOINLINE void on_query(const Message &m) { burn(2000); sink = sink + m.size; }
	Server()
	{
		handlers["login"] = [this](const Message &m) { on_login(m); sink = sink + 1; };
		handlers["query"] = [this](const Message &m) { on_query(m); sink = sink + 1; };
	}
	NOINLINE void run()
	{
		for (;;) {
			Message m = inbox.pop();
			handlers[m.kind](m);
		}
	}
};

struct Job {
	virtual ~Job() = default;
	virtual void execute() = 0;
};
struct Resize : Job {
	NOINLINE void execute() override { burn(1500); }
};
struct Encode : Job {
	NOINLINE void execute() override { burn(1500); }
};

class Pool {
	std::vector<std::thread> threads;

public:
	Queue<Job *> queue;
	NOINLINE void work()
	{
		for (;;) {
			Job *j = queue.pop();
			j->execute();
			delete j;
		}
	}
	explicit Pool(int n)
	{
		while (n-- > 0)
			threads.emplace_back(&Pool::work, this);
	}
};

static NOINLINE void on_timer() { burn(1500); }

int main()
{
	static Server server;
	static Pool pool(2);
	std::thread serve([] { server.run(); });
	std::thread timer([] {
		for (;;) {
			std::this_thread::sleep_for(std::chrono::milliseconds(10));
			on_timer();
		}
	});
	for (int i = 0;; i++) {
		std::this_thread::sleep_for(std::chrono::milliseconds(5));
		if (server.inbox.idle())
			server.inbox.push({i % 2 ? "login" : "query", i});
		if (i % 2 && pool.queue.idle())
			pool.queue.push(i % 4 == 1 ? static_cast<Job *>(new Resize) : new Encode);
	}
}
