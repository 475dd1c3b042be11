// Methods, references and strings of C++.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#define kept __attribute__((noinline, noipa))

volatile long sink;

namespace shop {
enum class State : unsigned char { Open, Closed = 200 };
struct Base {
	virtual ~Base() {}
	int version = 3;
};
class Order : public Base {
public:
	std::string customer = "Ada";
	State state = State::Closed;
	int64_t total = -250;
	kept long add(const std::string &item, int count, State as) { return sink += item.size() + count + total + (long)as; }
};
kept long named(std::string by_value, std::string *pointer, const Order &order, bool &flag)
{
	return sink += by_value.size() + pointer->size() + order.total + flag;
}
kept long viewed(std::string_view view, const std::string_view &other) { return sink += view.size() + other.size(); }
struct Place { int x; float z; };
struct Moved : Base, Place { bool on = true; State as = State::Closed; Place &at; int x = 9; Moved(Place &p) : Place{-3, 0.25f}, at(p) {} };
kept long places(const Moved &m, Place by_value, Moved copied) { return sink += m.x + by_value.x + copied.x; }
kept std::string tagged(int n) { return std::string(n, 't'); }
kept int overloaded(int n) { return sink += n; }
kept int overloaded(const char *text) { return sink += text[0]; }
}

int main()
{
	char line[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	shop::Order order;
	std::string long_one(60, 'l'), empty;
	bool flag = true;
	for (int i = 0; i < 3; i++) {
		order.add("pen", -2, shop::State::Open);
		shop::named("short", &long_one, order, flag);
		shop::viewed("a view", "another");
		shop::Place place{7, -1.5f};
		shop::Moved moved(place);
		shop::places(moved, place, moved);
		shop::tagged(40);
		shop::overloaded(2);
		shop::overloaded("two");
	}
	puts("done");
}
