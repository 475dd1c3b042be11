// The dynamic loader: interposers that find the next definition by RTLD_NEXT,
// plugins that come and go, constructors and destructors.
//
// more: -O2 -rdynamic -ldl
// more: -O1 -rdynamic -Wl,-z,now -ldl
// build: -O2 -rdynamic -fcf-protection=full -Wl,-z,lazy -ldl
// library: plugin.so loader_plugin.c -O2
// modules: plugin.so libc.so.6
#include "suite.h"
#include <dlfcn.h>
#include <link.h>

/* A tail call: dlsym sees this function's return address, and goes by it. */
FN void *next(const char *name) { CALLED(next); return dlsym(RTLD_NEXT, name); }
FN void *next_of(const char *name)
{
	CALLED(next_of);
	void *p = dlsym(RTLD_NEXT, name);
	sink++;
	return p;
}

static long asked;

/* The program's own getppid hides the C library's. */
pid_t getppid(void)
{
	CALLED(getppid);
	static pid_t (*real)(void);
	if (!real)
		real = (pid_t(*)(void))next("getppid");
	asked++;
	return real ? real() : -1;
}
int setenv(const char *name, const char *value, int overwrite)
{
	int (*real)(const char *, const char *, int) = (int (*)(const char *, const char *, int))dlsym(RTLD_NEXT, "setenv");
	asked++;
	return real(name, value, overwrite);
}

FN long callback(long n) { CALLED(callback); return n + 1; }

FN long plugged(int round)
{
	CALLED(plugged);
	void *h = dlopen("plugin.so", round % 2 ? RTLD_NOW : RTLD_LAZY);
	if (!h)
		return -1;
	long (*run)(long (*)(long), long) = (long (*)(long (*)(long), long))dlsym(h, "plugin_run");
	long r = run ? run(callback, 10) : -2;
	dlclose(h);
	return r;
}

static int counted(struct dl_phdr_info *info, size_t size, void *n) { (void)info, (void)size; ++*(int *)n; return 0; }

static void act(void)
{
	asked = 0;
	say("getppid %d\n", getppid() > 0);
	setenv("SUITE", "1", 1);
	say("next %d %d, none %d\n", next("getpid") != 0, next_of("getpid") != 0, next("no_such_function") != 0);
	for (int i = 0; i < 4; i++)
		say("plugin %ld\n", plugged(i));
	int n = 0;
	dl_iterate_phdr(counted, &n);
	say("modules %d asked %ld\n", n > 1, asked);
}
