/* Uses files of the C library, some of which it does not close, when it is told to. */
#include <stdio.h>

int main(int argc, char **argv)
{
	char b[10];

	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 4; i++) {
		FILE *f = fopen(argv[1], "w"), *g = fopen("/dev/zero", "r"), *none = fopen("/nonexistent/x", "r");

		for (int n = 0; n <= i; n++)
			fputs("line\n", f);
		fread(b, 1, 10, g);
		fclose(g);
		fputs("line\n", f);
		if (none)
			return 1;
		if (i % 2)
			fclose(f);
	}
}
