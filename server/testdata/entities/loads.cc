// Loads and unloads the library named, at each line of input.
#include <cstdio>
#include <dlfcn.h>

int main(int, char **argv)
{
	void *lib = nullptr;
	puts("ready");
	fflush(stdout);
	while (getchar() != EOF) {
		if (lib) {
			dlclose(lib);
			lib = nullptr;
			puts("unloaded");
		} else {
			lib = dlopen(argv[1], RTLD_NOW);
			puts(lib ? "loaded" : dlerror());
		}
		fflush(stdout);
	}
	return 0;
}
