package uprobe

import (
	"fmt"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// logging is a program with 100 coroutines that numbers its calls, and logs of each its
// depth on its stack and four times: before the call, within it at its begin and end,
// and after it.
const logging = prelude + `
#include <ucontext.h>
#define APART __attribute__((noinline, noipa))
enum { N = 100, STACK = 32768 };
static struct { const char *name; int depth; long before, begin, end, after; } calls[100000];
static long ncalls;
struct stack { int id, depth, done; void *sp; ucontext_t context; struct stack *by; };
static struct stack coroutines[N], thread, *current = &thread;
APART static long now(void) { struct timespec t; clock_gettime(CLOCK_BOOTTIME, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
APART static long numbered(const char *name) { long n = ncalls++; calls[n].name = name; calls[n].before = now(); return n; }
#define CALL(f, ...) do { long n_ = numbered(#f); f(n_, ##__VA_ARGS__); calls[n_].after = now(); } while (0)
#define CALLED calls[n].depth = current->depth++; calls[n].begin = now()
#define RETURNS calls[n].end = now(); current->depth--
#ifdef BYHAND
void hop(void **from, void *to);
__asm__(".text\n.globl hop\n.type hop,@function\nhop:\n.cfi_startproc\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	" mov %rsp,(%rdi)\n mov %rsi,%rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n.cfi_endproc\n.size hop,.-hop\n");
#define SWITCH(a, b) hop(&(a)->sp, (b)->sp)
#else
#define SWITCH(a, b) swapcontext(&(a)->context, &(b)->context)
#endif
APART void leaf(long n) { CALLED; for (int i = 0; i < 200; i++) sink += i; RETURNS; }
APART void yields(long n) { CALLED; struct stack *s = current; current = s->by; SWITCH(s, s->by); RETURNS; }
APART void level(long n, long k) { CALLED; CALL(leaf); if (k % 3 == 1) CALL(yields); if (k > 0) CALL(level, k - 1); else CALL(yields); CALL(leaf); RETURNS; }
APART void resumes(long n, struct stack *s) { CALLED; s->by = current; current = s; SWITCH(s->by, s); RETURNS; }
static void body(void) {
	for (int i = 0; i < 5; i++) CALL(level, (current->id + i) % 6);
	current->done = 1;
	for (;;) { struct stack *s = current; current = s->by; SWITCH(s, s->by); }
}
int main(void) {
	for (int i = 0; i < N; i++) {
		struct stack *s = &coroutines[i];
		char *room = malloc(STACK);
		s->id = i;
#ifdef BYHAND
		void **top = (void **)((long)(room + STACK) & ~15L);
		*--top = 0;
		*--top = (void *)body;
		for (int k = 0; k < 6; k++) *--top = 0;
		s->sp = top;
#else
		getcontext(&s->context);
		s->context.uc_stack.ss_sp = room; s->context.uc_stack.ss_size = STACK; s->context.uc_link = 0;
		makecontext(&s->context, body, 0);
#endif
	}
	ready();
	for (int more = 1; more;) {
		more = 0;
		for (int i = 0; i < N; i++) if (!coroutines[i].done) { more = 1; CALL(resumes, &coroutines[i]); }
	}
	for (long n = 0; n < ncalls; n++) printf("%s %d %ld %ld\n", calls[n].name, calls[n].depth, calls[n].end - calls[n].begin, calls[n].after - calls[n].before);
	return 0;
}
`

// Each call of a coroutine has the depth and the duration that the program logs, also
// if the coroutine is suspended within it.
func TestTimesOfCoroutines(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{nil, {"-DBYHAND"}} {
		target := testenv.CompileCText(t, logging, append(flags, "-O1", "-fno-optimize-sibling-calls")...)
		returnModes(t, func(t *testing.T, o Options) {
			o.RingBytes = 64 << 20
			p := provider(t, o)
			r := run(t, target)
			_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("leaf", "yields", "level", "resumes"), "function_name", "arg0", "depth", "duration"))
			log := r.finish(success)
			got.wait(t)
			if len(log) < 5000 || len(got.rows) != len(log) {
				t.Errorf("%d rows, the program logs %d calls", len(got.rows), len(log))
			}
			seen := map[int64]bool{}
			names, depths, durations := got.strings("function_name"), got.ints("depth"), got.ints("duration")
			for i, n := range got.ints("arg0") {
				if seen[n] || n < 0 || n >= int64(len(log)) {
					t.Fatalf("call %d is not one of %d, or has two rows", n, len(log))
				}
				seen[n] = true
				var name string
				var depth, least, most int64
				if _, err := fmt.Sscan(log[n], &name, &depth, &least, &most); err != nil {
					t.Fatal(err)
				}
				if names[i] != name || depths[i] != depth || durations[i] < least || durations[i] > most {
					t.Fatalf("call %d is %s at depth %d for %d ns, the program logs %s", n, names[i], depths[i], durations[i], log[n])
				}
			}
			if len(got.lost)+len(got.counts) > 0 {
				t.Errorf("lost %v, counts %v", got.lost, got.counts)
			}
		})
	}
}
