// Functions in pieces: cold paths, outlined parts, entries that the linker or
// the processor chooses, code without unwind information.
//
// build: -O2
// more: -O2 -freorder-blocks-and-partition -ffunction-sections
// more: -O3 -s
// more: -Os -fno-asynchronous-unwind-tables
// more: -O2 -static
#include "suite.h"

__attribute__((noinline, cold)) static void rare(long n) { CALLED(rare); sink -= n; }
FN long mostly(long n)
{
	CALLED(mostly);
	if (__builtin_expect(n % 10 == 9, 0)) {
		rare(n);
		sink++;
		if (n % 20 == 19) {
			rare(n + 1);
			return sink % 2 ? 1 : 2;
		}
	}
	sink += n;
	return n;
}
FN long looping(long n)
{
	CALLED(looping);
	long sum = 0;
	for (long i = 0; i < n; i++) {
		if (__builtin_expect(i == 17, 0))
			rare(i);
		sum += mostly(i) > 0;
	}
	return sum;
}

static long chosen_plain(long n) { CALLED(chosen_plain); sink++; return n + 1; }
static long chosen_other(long n) { CALLED(chosen_other); sink++; return n + 2; }
static long (*resolve_chosen(void))(long) { return sizeof(long) == 8 ? chosen_plain : chosen_other; }
long chosen(long n) __attribute__((ifunc("resolve_chosen")));

FN long switched(long n)
{
	CALLED(switched);
	switch (n) {
	case 0: return sink++ ? 7 : 7;
	case 1: return 11;
	case 2: rare(2); return 13;
	case 3: return mostly(3);
	case 4: return 19 + chosen(1);
	case 5: return looping(3);
	case 6: return 23;
	default: return chosen(n); /* a tail call */
	}
}

/* Written by hand: two entries into one body, a loop at the very beginning, a
 * return address that is popped, one that is pushed. */
long twin_a(long), twin_b(long), begins_with_loop(long), pops(long), pushes(long);
asm(".text\n"
    ".globl twin_a\n.type twin_a, @function\n.globl twin_b\n.type twin_b, @function\n"
    "twin_a:\n	add $1, %rdi\n"
    "twin_b:\n	lea (%rdi,%rdi), %rax\n	ret\n.size twin_a, .-twin_a\n.size twin_b, .-twin_b\n"
    ".globl begins_with_loop\n.type begins_with_loop, @function\n"
    "begins_with_loop:\n	dec %rdi\n	jnz begins_with_loop\n	mov $3, %eax\n	ret\n.size begins_with_loop, .-begins_with_loop\n"
    ".globl pops\n.type pops, @function\n"
    "pops:\n	pop %rcx\n	lea 5(%rdi), %rax\n	jmp *%rcx\n.size pops, .-pops\n"
    ".globl pushes\n.type pushes, @function\n"
    "pushes:\n	lea 1f(%rip), %rax\n	push %rax\n	ret\n1:	lea 6(%rdi), %rax\n	ret\n.size pushes, .-pushes\n");

static void act(void)
{
	say("looping %ld\n", looping(40));
	long sum = 0;
	for (long i = 0; i < 9; i++)
		sum = sum * 3 + switched(i);
	say("switched %ld\n", sum);
	say("chosen %ld\n", chosen(1));
	say("by hand %ld %ld %ld %ld %ld\n", twin_a(3), twin_b(3), begins_with_loop(5), pops(4), pushes(4));
}
