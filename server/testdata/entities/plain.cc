// Objects without destructor, on the heap: each line of input makes one and ends it.
#include <cstdio>

struct Point {
	Point(int x, int y);
	int sum();
	int x, y;
};

__attribute__((noinline)) Point::Point(int x, int y) : x(x), y(y) {}
__attribute__((noinline)) int Point::sum() { return x + y; }

int main()
{
	puts("ready");
	fflush(stdout);
	for (int i = 0; getchar() != EOF; i++) {
		Point *p = new Point(i, i);
		int n = p->sum();
		delete p;
		puts(n >= 0 ? "made" : "");
		fflush(stdout);
	}
	return 0;
}
