// Much of the C library: callbacks through it, its allocator, its threads, what
// it does behind one's back.
//
// build: -O1 -pthread
// more: -O1 -pthread -static
// modules: libc.so.6
#include "suite.h"
#include <dirent.h>
#include <ftw.h>
#include <glob.h>
#include <iconv.h>
#include <locale.h>
#include <regex.h>
#include <search.h>
#include <time.h>

FN int compare(const void *a, const void *b) { CALLED(compare); return *(const int *)a - *(const int *)b; }
static sigjmp_buf out;
FN int compare_leaving(const void *a, const void *b) { CALLED(compare_leaving); if (*(const int *)a == 13) siglongjmp(out, 1); return *(const int *)a - *(const int *)b; }
static long visited;
FN void visit(const void *node, VISIT which, int depth) { CALLED(visit); (void)node, (void)depth; if (which == postorder || which == leaf) visited++; }
FN int entry(const char *path, const struct stat *st, int type) { (void)path, (void)st, (void)type; return 0; }
static pthread_once_t once = PTHREAD_ONCE_INIT;
FN void only_once(void) { sink++; }

FN void *allocating(void *n)
{
	CALLED(allocating);
	char *held[64] = {0};
	unsigned seed = (unsigned)(long)n;
	long sum = 0;
	for (int i = 0; i < 500; i++) {
		int k = rand_r(&seed) % 64;
		size_t size = rand_r(&seed) % 5000 + 1;
		held[k] = realloc(held[k], size);
		memset(held[k], k, size);
		sum += held[k][size / 2];
	}
	for (int i = 0; i < 64; i++)
		free(held[i]);
	return (void *)sum;
}

static void act(void)
{
	int v[200];
	for (int i = 0; i < 200; i++)
		v[i] = (i * 7919) % 211;
	qsort(v, 200, sizeof *v, compare);
	int key = v[100], *found = bsearch(&key, v, 200, sizeof *v, compare);
	say("qsort %d %d bsearch %d\n", v[0], v[199], found ? *found : -1);
	int w[40];
	for (int i = 0; i < 40; i++)
		w[i] = 39 - i;
	if (!sigsetjmp(out, 1))
		qsort(w, 40, sizeof *w, compare_leaving);
	void *root = 0;
	for (int i = 0; i < 50; i++)
		tsearch(&v[i], &root, compare);
	visited = 0;
	twalk(root, visit);
	say("tree %d\n", visited > 10);
	while (root)
		tdelete(*(int **)root, &root, compare);

	char text[200];
	snprintf(text, sizeof text, "%.6f %g %e %s %-8d|%05x %ls", 3.14159265, 1e100, 2.5e-7, "text", 42, 255, L"wide");
	say("printf %s\n", text);
	double d;
	int n;
	char word[20];
	sscanf("2.75 1234 abc", "%lf %d %19s", &d, &n, word);
	say("scanf %.2f %d %s %ld %g\n", d, n, word, strtol("-77", 0, 10), strtod("1e3", 0));
	struct tm tm;
	time_t when = 86400 * 365;
	gmtime_r(&when, &tm);
	strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S %A", &tm);
	say("time %s\n", text);
	regex_t re;
	regmatch_t m[3];
	regcomp(&re, "([a-z]+)-([0-9]+)", REG_EXTENDED);
	int rc = regexec(&re, "  name-123 ", 3, m, 0);
	say("regex %d %d-%d %d-%d\n", rc, (int)m[1].rm_so, (int)m[1].rm_eo, (int)m[2].rm_so, (int)m[2].rm_eo);
	regfree(&re);
	FILE *p = popen("echo from a pipe", "r");
	if (p && fgets(text, sizeof text, p))
		say("popen %s", text);
	say("pclose %d\n", p ? pclose(p) : -1);
	say("ftw %d\n", ftw("/proc/self/fdinfo", entry, 4));
	setlocale(LC_ALL, "C");
	pthread_once(&once, only_once);
	pthread_t t[4];
	long sum = 0;
	for (long i = 0; i < 4; i++)
		pthread_create(&t[i], 0, allocating, (void *)i);
	for (long i = 0; i < 4; i++) {
		void *r;
		pthread_join(t[i], &r);
		sum += (long)r;
	}
	say("allocated %ld\n", sum);
	char *copy = strdup("strdup"), *cat = malloc(100);
	strcpy(cat, copy);
	strcat(cat, strchr("x,tail", ','));
	say("string %s %zu %d %d\n", cat, strlen(cat), strcmp(cat, copy) > 0, memcmp(cat, copy, 6));
	for (char *save, *tok = strtok_r(cat, ",", &save); tok; tok = strtok_r(0, ",", &save))
		say("token %s\n", tok);
	free(copy), free(cat);
}
