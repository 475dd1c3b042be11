// Variables of member functions, and texts.
#include <cstdio>
#include <cstdlib>
#include <string>

namespace shop {
struct Item { std::string name; int price; };
class Till {
	long sum = 0;
public:
	__attribute__((noinline)) long add(const Item &item, int count) {
		std::string label = item.name;
		for (int i = 0; i < count; i++)
			label += "+";
		bool many = count > 2;
		sum += item.price * count;
		if (many)
			label = "a label that is longer than what fits into the object: " + label;
		return sum + (long)label.size();
	}
};
}

std::string motto = "short";

int main() {
	shop::Till till;
	char line[100];
	std::puts("1"); std::fflush(stdout);
	while (std::fgets(line, sizeof line, stdin)) {
		int n = std::atoi(line);
		shop::Item item{"apple", 7};
		std::printf("%ld\n", till.add(item, n));
		if (n > 3) motto = "a motto that is longer than what fits into the object";
		motto += '!';
		std::fflush(stdout);
	}
}
