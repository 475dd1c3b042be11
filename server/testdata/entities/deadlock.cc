// Two threads take two mutexes in opposite order, and neither gets the second; a
// third one waits for one of them. A fourth holds one that nobody else wants.
#include <cstdio>
#include <mutex>
#include <pthread.h>
#include <thread>
#include <unistd.h>

static std::mutex a, b, c;
static pthread_barrier_t both;

static void cross(const char *name, std::mutex &first, std::mutex &second)
{
	pthread_setname_np(pthread_self(), name);
	first.lock();
	pthread_barrier_wait(&both);
	second.lock();
}

int main()
{
	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		return 1;
	pthread_barrier_init(&both, nullptr, 3);
	std::thread left(cross, "left", std::ref(a), std::ref(b));
	std::thread right(cross, "right", std::ref(b), std::ref(a));
	std::thread alone([] { pthread_setname_np(pthread_self(), "alone"); c.lock(); pause(); });
	pthread_barrier_wait(&both);
	std::thread third([] { pthread_setname_np(pthread_self(), "third"); usleep(50000); a.lock(); });
	left.join();
}
