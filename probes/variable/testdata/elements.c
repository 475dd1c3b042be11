/* Elements of what functions have: a line of input is a number, for which all is computed
 * once. It is C and C++. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part { int id; short sizes[3]; const char *words[2]; };
struct order { struct part *parts; int rows[2][3]; int count; long more[]; };

__attribute__((noinline)) long sum(struct order *o, const long *list, const char *words[], int n) {
	long total = 0;
	int seen[4] = {0, 0, 0, 0};
	char names[2][8] = {"none", "nobody"};
	for (int i = 0; i < 3; i++) {
		seen[i] = n + i;
		total += seen[i] * list[i];
	}
	strcpy(names[1], words[1]);
	o->parts[1].id = n;
	o->parts[1].sizes[2] = (short)(n + 1);
	o->parts[1].words[1] = words[0];
	o->rows[1][2] = n + 2;
	o->more[1] = n + 3;
	words[1] = "last";
	return total + names[1][0];
}

int main(void) {
	char line[100];
	struct part parts[2];
	struct order *o = (struct order *)calloc(1, sizeof(struct order) + 2 * sizeof(long));
	puts("1");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		const long list[] = {1, 2, 3};
		const char *words[] = {"first", "second"};
		memset(parts, 0, sizeof parts);
		memset(o, 0, sizeof(struct order) + 2 * sizeof(long));
		parts[1].words[1] = "none";
		o->parts = parts;
		printf("%ld\n", sum(o, list, words, atoi(line)));
		fflush(stdout);
	}
}
