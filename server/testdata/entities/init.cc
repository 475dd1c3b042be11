// A class whose objects are made, and called, before main begins.
#include <cstdio>

struct Base {
	virtual ~Base() {}
	virtual int count() { return 0; }
};

struct Registry : Base {
	Registry();
	~Registry() override {}
	int count() override;
	void add(int by);
	int n = 0;
};

__attribute__((noinline)) Registry::Registry() { add(1); }
__attribute__((noinline)) int Registry::count() { return n; }
__attribute__((noinline)) void Registry::add(int by) { n += by; }

static Registry registry;
static int counted = registry.count();

int main()
{
	printf("%d\n", counted);
	return 0;
}
