/* Calls whose arguments are in memory that is not present, as the kernel says. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "../marks/mark.h"
#define kept __attribute__((noinline, noipa))
#define PAGE 4096

struct page {
	char text[PAGE - sizeof(long)];
	long id;
};
#define P(n) { "text " #n, 1##n - 1000 },
#define P10(n) P(n##0) P(n##1) P(n##2) P(n##3) P(n##4) P(n##5) P(n##6) P(n##7) P(n##8) P(n##9)
#define P100(n) P10(n##0) P10(n##1) P10(n##2) P10(n##3) P10(n##4) P10(n##5) P10(n##6) P10(n##7) P10(n##8) P10(n##9)
#define PAGES 1000
static const struct page pages[PAGES] __attribute__((aligned(PAGE))) = {
	P100(0) P100(1) P100(2) P100(3) P100(4) P100(5) P100(6) P100(7) P100(8) P100(9)
};
static int pagemap, advice;
static long absent;
volatile long sink;

/* leave gives up page i and its neighbours, and counts it if it is not present then. */
static void leave(int i)
{
	uint64_t entry = 0;

	if (advice == MADV_DONTNEED)
		madvise((void *)pages, sizeof(pages), advice);
	else if (advice)
		madvise((void *)&pages[i], PAGE, advice);
	pread(pagemap, &entry, sizeof(entry), (uintptr_t)&pages[i] / PAGE * sizeof(entry));
	absent += !(entry >> 63);
}

/* These do not touch the page. */
kept long named(const char *name, const struct page *page) { return sink += (long)name + (long)page; }
kept void mark(const struct page *page) { MARK("page", "-8@%0 8@%1", "m"(page->id), "r"(page->text)); }
kept const char *give(long i)
{
	leave(i);
	return pages[i].text;
}
kept void report(long n) { sink += n; }

int main(int argc, char **argv)
{
	char line[16];

	if (!strcmp(argv[1], "dropped"))
		advice = MADV_DONTNEED;
	if (!strcmp(argv[1], "reclaimed"))
		advice = MADV_PAGEOUT;
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	puts("ready");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < PAGES; i++) {
		leave(i);
		named(pages[i].text, &pages[i]);
	}
	for (int i = 0; i < PAGES; i++)
		give(i);
	for (int i = 0; i < PAGES; i++) {
		leave(i);
		mark(&pages[i]);
	}
	named((char *)8, (struct page *)8);
	named(NULL, NULL);
	report(absent);
	return 0;
}
