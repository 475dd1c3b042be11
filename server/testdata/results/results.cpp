// Methods that return one of each type.
#include <cstdio>
#include <stdexcept>
#include <string>
#define kept __attribute__((noinline, noipa))

namespace shop {
enum class State : short { Open, Sent = 300, Lost = -1 };
struct Item { int id, count; };
volatile int sink;

struct Order {
	std::string customer = "a customer with a long name";
	long total = -9;
	Item item{3, -4};
	kept State state(int n) { return sink += n, State::Sent; }
	kept const std::string &name() { return sink += 1, customer; }
	kept std::string copied() { return sink += 1, customer; }
	kept Item first() { return sink += 1, item; }
	kept Order *self() { return sink += 1, this; }
	kept bool paid(int n)
	{
		if (n < 0)
			throw std::runtime_error("negative");
		return sink += n, n > 0;
	}
};
}

int main()
{
	char line[8];
	std::puts("ready");
	std::fflush(stdout);
	if (!std::fgets(line, sizeof line, stdin))
		return 1;
	shop::Order o;
	for (int i = 0; i < 3; i++) {
		o.state(1), o.name(), o.copied(), o.first(), o.self(), o.paid(6);
		try {
			o.paid(-1);
		} catch (const std::exception &) {
		}
	}
	std::puts("done");
}
