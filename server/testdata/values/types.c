/* Functions that take one of each type. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define kept __attribute__((noinline, noipa))

enum color { RED, GREEN = 7, BLUE = -2 };
typedef unsigned long size_type;
struct point { int x, y; };
struct request {
	long id;
	char name[16];
	const char *path;
	struct point at;
	struct request *parent;
	unsigned flag : 3, kind : 5;
	int delta : 6;
	enum color color;
	bool open;
	double load;
	uint64_t large;
};
struct item {
	short id;
	const char *name;
	signed char grid[2][3];
	struct request *owners[2];
};
struct pair {
	int both[2];
};
volatile long sink;
int global = 4;

kept long integers(signed char c, short s, int i, long l, unsigned char uc, unsigned short us)
{
	return sink += c + s + i + l + uc + us;
}
kept long unsigneds(unsigned u, uint64_t ul, size_type n, bool yes, bool no, enum color color)
{
	return sink += u + ul + n + yes + no + color;
}
kept long many(int a, int b, int c, int d, int e, int f, short g, long h, const char *i)
{
	return sink += a + b + c + d + e + f + g + h + *i;
}
kept long texts(const char *text, char *empty, const char *null, void *raw, char letter)
{
	return sink += *text + *empty + !null + !raw + letter;
}
kept long fields(struct request *req, const struct request *nothing)
{
	return sink += req->id + !nothing;
}
kept long by_value(struct point p, struct request whole, int last)
{
	return sink += p.x + p.y + whole.id + last;
}
kept double floating(double d, int after, float f) { return d * after + f; }
kept struct request returned(int before, const char *name)
{
	struct request r = {.id = before};
	strncpy(r.name, name, sizeof r.name - 1);
	return r;
}
kept long elements(struct item *list, int *numbers, char **argv, struct pair pair, int (*rows)[3], double *parts, struct item *none)
{
	return sink += list->id + *numbers + **argv + pair.both[1] + rows[1][1] + *parts + !none;
}
kept long opaque(void *ctx, struct point *at, long address)
{
	return sink += *(int *)ctx + at->x + address;
}
union number {
	int i;
	float f;
	unsigned char bytes[4];
};
struct shape {
	char kind[6];
	union number n;
	struct {
		short left, right;
	};
	struct point corners[2];
	char names[2][4];
	unsigned char raw[3];
	unsigned low : 3, high : 5;
	signed char delta : 4;
	enum color color;
	bool open;
	float f;
	double d;
	long double ld;
	uint64_t large;
	const char *text;
	struct shape *next;
	long (*code)(long);
	int none[0];
};
struct list {
	long count;
	struct item *items;
	struct point in[3];
};
struct big {
	char bytes[1025];
	int end;
};
kept long wholes(struct shape *s, struct shape by_value, struct point p, struct pair pair, struct point (*points)[2], union number *n)
{
	return sink += s->n.i + by_value.n.i + p.x + pair.both[0] + points[0][1].x + n->i;
}
kept struct point swapped(struct point p) { return (struct point){p.y, p.x}; }
kept struct shape moved(struct shape *s, int by)
{
	struct shape moved = *s;
	moved.corners[0].x += by;
	return moved;
}
kept long large(struct big *b, double d, int after) { return sink += b->end + d + after; }
kept long twice(long n) { return 2 * n; }
kept long called(long (*f)(long), void *data, struct shape *s, const unsigned char *bytes, long (**table)(long)) { return f(*(int *)data) + s->code(1) + *bytes + table[1](1); }
kept void *pointer(void *p) { return p; }
kept long ten(long a, int b, short c, signed char d, unsigned e, long f, long g, int h, short i, long j)
{
	return sink += a + b + c + d + e + f + g + h + i + j;
}
kept long indexed(struct item *list, struct shape *s, int i, unsigned char j, const int *numbers, struct list *all)
{
	return sink += list->id + s->open + i + j + *numbers + all->count;
}
kept struct item *found(struct item *list) { return list + (sink > 0); }

int main(void)
{
	char line[8];
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof line, stdin))
		return 1;
	struct request parent = {.id = 41, .path = "/up"};
	struct request r = {-5, "GET", "/index.html", {3, -4}, &parent, 5, 17, -9, BLUE, true, 0.75, 1ULL << 63};
	static struct shape s = {
		.kind = "a\"b\\", .n.i = -5, .left = 1, .right = -2, .corners = {{3, 4}, {-5, 6}}, .names = {"one", "four"}, .raw = {0, 127, 255},
		.low = 5, .high = 17, .delta = -3, .color = BLUE, .open = true, .f = 0.1f, .d = -2.5e300, .ld = 3.25L, .large = 18446744073709551615ull,
		.text = "pointed to", .code = twice};
	static struct point points[2] = {{1, 2}, {3, 4}};
	static struct big b = {"big", 7};
	static const unsigned char bytes[] = {0, 1, 0x7f, 0x80, 0xff, 'e', 'n', 'd'};
	static const int numbers[] = {-70, 71, -72, 73, 74};
	static long (*table[2])(long) = {NULL, twice};
	s.next = &s;
	static char text[] = "SELECT 1 /* \303\274ml\303\244ut */", empty[] = "";
	memset(r.name, 'n', sizeof r.name); /* without a zero byte */
	for (int i = 0; i < 3; i++) {
		integers(-100, -30000, -2000000000, -9000000000000000000L, 200, 60000);
		unsigneds(4000000000u, 9000000000000000000ull, 12345678901ul, true, false, GREEN);
		many(1, -2, 3, -4, 5, -6, -7, 8000000000, "ninth");
		texts(text, empty, NULL, text + 7, 'x');
		fields(&r, NULL);
		by_value((struct point){-1, 2}, r, 77);
		floating(1.5, -3, 2.5f);
		returned(6, "result");
		struct item list[] = {{1, "one", {{1, 2, 3}, {4, 5, -6}}, {&parent, &r}}, {-2, "two", {{7}}, {0, &parent}}};
		int rows[][3] = {{1, 2, 3}, {-4, 5, 6}};
		double parts[] = {0.5, -2.25};
		char *words[] = {"first", "second", NULL};
		elements(list, rows[0] + 3, words, (struct pair){{-8, 9}}, rows, parts, NULL);
		opaque(&r, &r.at, (long)&list[1] - 16);
		sink = 1;
		found(list);
		wholes(&s, s, (struct point){-1, 2}, (struct pair){{7, -8}}, &points, &s.n);
		swapped((struct point){5, -6});
		moved(&s, 4);
		large(&b, 0.5, 9);
		called(twice, &global, &s, bytes, table);
		struct list all = {2, list, {{10, 11}, {12, 13}, {14, 15}}};
		indexed(list, &s, 1, 2, numbers, &all);
		pointer((void *)puts);
		ten(-1, 2, -3, 4, 5, -6, 7000000000, -8, 9, -10);
	}
	puts("done");
	return 0;
}
