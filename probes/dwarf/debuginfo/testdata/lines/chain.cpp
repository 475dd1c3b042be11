// Calls of methods, templates and lambdas that are inlined.
#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <string>
#include <vector>

namespace shop {

class Basket {
	std::vector<long> prices;

public:
	void add(long price) { prices.push_back(price); }
	long total() const { return std::accumulate(prices.begin(), prices.end(), 0L); }
	template <typename Rate> long taxed(Rate rate) const {
		long sum = 0;
		for (auto p : prices)
			sum += rate(p);
		return sum;
	}
};

namespace {
inline long rounded(long n) { return (n + 5) / 10 * 10; }
} // namespace

__attribute__((noinline)) long checkout(const Basket &b) {
	auto rate = [](long p) { return rounded(p * 119 / 100); };
	return b.total() + b.taxed(rate);
}

} // namespace shop

int main(int argc, char **argv) {
	shop::Basket b;
	for (int i = 0; i < argc * 10; i++)
		b.add(i * 7);
	std::map<std::string, long> sorted;
	for (int i = 0; i < argc; i++)
		sorted[argv[i]] = shop::checkout(b);
	for (auto &[name, n] : sorted)
		std::printf("%s %ld\n", name.c_str(), n);
	return 0;
}
