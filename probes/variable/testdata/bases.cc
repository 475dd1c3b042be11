// Fields of classes from which others derive: one of several bases, a base's base, one
// behind a pointer and in standard containers; one line a command.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

struct Shape { int id = 3; virtual ~Shape() {} };
struct Round : Shape { long radius = 4; };
struct Named { int letters = 9; };
struct Circle : Round, Named { int id2 = 5; };
struct Virtual : virtual Named { int own = 1; };
struct Hiding : Named { long letters = 7; };

Circle circle;
Circle *shown = &circle;
Hiding hiding;
Virtual away;
int counted;
int &alias = counted;
std::shared_ptr<Circle> shared = std::make_shared<Circle>();
std::vector<int> list = {7, 8, 9};

#define noinline __attribute__((noinline))
noinline void number(int n) { circle.id = n; }
noinline void grow(int n) { shown->radius = n; }
noinline void letter(int n) { circle.letters = n; }
noinline void hide(int n) { hiding.letters = n; }
noinline void share(int n) { shared->id = n; }
noinline void element(int n) { list[1] = n; }
noinline void ready() { (void)*(volatile int *)&counted; }
noinline void leave() { (void)*(volatile int *)&counted; }

int main() {
	char line[100];
	away.own = counted;
	puts("1"); fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		int n = atoi(line + 1);
		switch (line[0]) {
		case 'b': ready(); break;
		case 'i': number(n); break;
		case 'r': grow(n); break;
		case 'l': letter(n); break;
		case 'h': hide(n); break;
		case 's': share(n); break;
		case 'e': element(n); break;
		case 'q': leave(); break;
		}
		puts("1"); fflush(stdout);
	}
}
