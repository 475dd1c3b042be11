// Variables of classes and namespaces.
#include <cstdio>
#include <cstdlib>
#include <string>

namespace shop {
struct Stock {
	static long items;
	int left = 4;
	__attribute__((noinline)) void take(int n) { left -= n; items -= n; }
};
long Stock::items = 100;
static Stock stock;
namespace { unsigned short hidden = 9; }
__attribute__((noinline)) void hide(int n) { hidden = n; }
}

int main() {
	char line[100];
	std::puts("1"); std::fflush(stdout);
	while (std::fgets(line, sizeof line, stdin)) {
		int n = std::atoi(line + 1);
		if (line[0] == 't') shop::stock.take(n); else shop::hide(n);
		std::puts("1"); std::fflush(stdout);
	}
}
