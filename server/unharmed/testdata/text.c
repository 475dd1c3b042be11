// Code that is not what the file says: patched at run time, generated, copied
// over itself.
//
// more: -O1 -falign-functions=64
// build: -O2 -falign-functions=64 -fcf-protection=full
#include "suite.h"

FN long work(long n) { CALLED(work); sink += n; return n == 0 ? 0 : kept(1 + work(n - 1)); }

/* On a page of their own, which is patched. */
#define PATCHED __attribute__((noinline, noclone, section(".text.patched"), aligned(4096)))
PATCHED long patched(long n) { sink += n; return work(n) + n; }
__attribute__((noinline, noclone, section(".text.patched"))) long beside(long n) { CALLED(beside); sink += n; return work(n) + 2 * n; }
PATCHED long behind(long n) { CALLED(behind); sink += n; return work(n) + 3 * n; }

static void write_code(unsigned char *at, long value)
{
	/* mov $value, %eax; ret, with room for what an indirect branch lands on. */
	unsigned char code[] = {0xf3, 0x0f, 0x1e, 0xfa, 0xb8, (unsigned char)value, 0, 0, 0, 0xc3};
	memcpy(at, code, sizeof code);
}

typedef long function(long);
static function *volatile target;

/* The patch stays writable, or is made read-only again. */
FN long patch(long value, int protect)
{
	CALLED(patch);
	unsigned char *page = (unsigned char *)((uintptr_t)patched & ~4095UL);
	mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	write_code((unsigned char *)patched, value);
	if (protect)
		mprotect(page, 4096, PROT_READ | PROT_EXEC);
	target = patched;
	return target(value);
}

/* What is patched is called again, and not written again before. */
FN long repeat(long n)
{
	CALLED(repeat);
	long sum = 0;
	for (int i = 0; i < 50; i++) {
		sum += target(n) + work(n);
		for (int j = 0; j < 500; j++) /* most of the time is here */
			asm volatile("pause");
	}
	return sum;
}

/* Code made at run time, which calls back. */
FN long generated(long value)
{
	CALLED(generated);
	unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	write_code(page, value);
	/* sub $8,%rsp; movabs $work,%rax; call *%rax; add $8,%rsp; ret */
	unsigned char call[] = {0x48, 0x83, 0xec, 8, 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0, 0x48, 0x83, 0xc4, 8, 0xc3};
	function *to = work;
	memcpy(call + 6, &to, 8);
	memcpy(page + 64, call, sizeof call);
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	target = (function *)page;
	long r = target(0);
	target = (function *)(page + 64);
	r += target(value);
	munmap(page, 4096);
	return r;
}

static void act(void)
{
	for (int i = 1; i < 4; i++) {
		say("patched %ld\n", patch(10 * i, i % 2));
		say("again %ld, %ld\n", repeat(i), beside(i) + behind(i));
	}
	for (int i = 1; i < 4; i++)
		say("generated %ld\n", generated(i));
}
