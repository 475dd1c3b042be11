package uprobe

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/internal/testplan"
)

// contextSwitch is a program's own implementation: where it is the C library's, no
// function has a return trap. jump continues at to, a stack pointer, and stores its own
// in from; begin makes a stack on which body begins.
const contextSwitch = `
void jump(void **from, void *to);
asm(".text\n.type jump, @function\njump:\n push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov %rsp, (%rdi)\n mov %rsi, %rsp\n pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret\n.size jump, .-jump\n");
static void *begin(char *stack, long size, void (*body)(void)) {
	void **top = (void **)(stack + size) - 2;
	*--top = body;
	return memset(top - 6, 0, 6 * sizeof *top);
}
`

// A return trap on a stack that is switched away from crashes the target. Calls on
// stacks of coroutines and signal handlers are recognised by their stack pointer and
// skipped; calls on the thread's own stack make rows throughout.
func TestForeignStacks(t *testing.T) {
	testenv.NeedUprobes(t)
	needFeature(t, attach.FeatureSession) // without, the kernel sets its trap before a program can check the stack
	coroutines := prelude + contextSwitch + `
#include <sys/mman.h>
static void *host, *guest;
NOINLINE long hop(long n) { sink += n; jump(&guest, host); sink++; return n; }
NOINLINE long home(long n) { sink += n; return n; }
static void body(void) { for (long i = 0;; i++) hop(i); }
static void *work_on(void *stack) {
	guest = begin(stack, 65536, body);
	for (int i = 0; i < 100; i++) { jump(&host, guest); home(i); }
	return 0;
}
static void *work(void *p) { return work_on(malloc(65536)); }
`
	for _, c := range []struct {
		name, text string
		rows       map[string]int
		foreign    uint64
	}{
		{"coroutines of the main thread", coroutines + `int main(void) { ready(); work(0); }`, map[string]int{"home": 100}, 100},
		{"coroutines of another thread", coroutines + `int main(void) { ready(); pthread_t t; pthread_create(&t, 0, work, 0); pthread_join(t, 0); }`, map[string]int{"home": 100}, 100},
		{"signals on a stack of their own", prelude + `
#include <signal.h>
NOINLINE long hop(long n) { sink += n; return n; }
NOINLINE long home(long n) { sink += n; raise(SIGUSR1); return n; }
static void on(int s) { hop(s); }
int main(void) {
	ready();
	stack_t st = { .ss_sp = malloc(65536), .ss_size = 65536 };
	sigaltstack(&st, 0);
	struct sigaction sa = { .sa_handler = on, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &sa, 0);
	for (int i = 0; i < 100; i++) home(i);
}`, map[string]int{"home": 100}, 100},
		// One mapping with the thread's own stack, and above it.
		{"a stack above another thread's", coroutines + `
int main(void) {
	ready();
	char *stack = mmap(0, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	pthread_t t; pthread_create(&t, 0, work_on, stack); pthread_join(t, 0);
}`, map[string]int{"home": 100}, 100},
		// One mapping with it, and below.
		{"a stack below another thread's, without a guard", coroutines + `
static void *below(void *p) {
	pthread_attr_t a; void *own; size_t size;
	pthread_getattr_np(pthread_self(), &a);
	pthread_attr_getstack(&a, &own, &size);
	return work_on(mmap((char *)own - 65536, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK | MAP_FIXED_NOREPLACE, -1, 0));
}
int main(void) {
	ready();
	pthread_attr_t a; pthread_attr_init(&a); pthread_attr_setguardsize(&a, 0);
	pthread_t t; pthread_create(&t, &a, below, 0); pthread_join(t, 0);
}`, map[string]int{"home": 100}, 100},
		{"signals on a stack inside the thread's own", prelude + `
#include <signal.h>
NOINLINE long hop(long n) { sink += n; return n; }
NOINLINE long home(long n) { sink += n; raise(SIGUSR1); return n; }
static void on(int s) { hop(s); }
int main(void) {
	ready();
	char room[65536];
	stack_t st = { .ss_sp = room, .ss_size = sizeof room };
	sigaltstack(&st, 0);
	struct sigaction sa = { .sa_handler = on, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &sa, 0);
	for (int i = 0; i < 100; i++) home(i);
}`, map[string]int{"home": 100}, 100},
		{"coroutines of a forked child, which is not monitored", coroutines + `
int main(void) {
	ready();
	pid_t c = fork();
	if (c == 0) { work(0); _exit(0); }
	int st; waitpid(c, &st, 0);
	for (int i = 0; i < 7; i++) home(i);
	return st != 0;
}`, map[string]int{"home": 7}, 0},
		{"deep calls on the threads' own stacks", prelude + `
NOINLINE long home(long n) { sink += n; return n; }
NOINLINE long hop(long n) { volatile char room[8192]; room[0] = n; return n ? hop(n - 1) + room[0] : home(n); }
static void *work(void *p) { hop(40); return 0; }
int main(void) { ready(); work(0); pthread_t t; pthread_create(&t, 0, work, 0); pthread_join(t, 0); }`,
			map[string]int{"home": 2, "hop": 82}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			target := testenv.CompileCText(t, c.text, "-O1", "-pthread", "-fno-optimize-sibling-calls")
			p := provider(t, Options{Links: "session"})
			r := run(t, target)
			spec := testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("hop", "home"), "function_name", "depth")
			spec.Settings.Returns = plan.TrapReturns
			src, got := start(t, p, spec)
			told := slices.ContainsFunc(src.Info().Notices, func(n string) bool {
				return strings.HasPrefix(n, "calls on the stacks of coroutines are not observed")
			})
			if coroutines := strings.HasPrefix(c.text, coroutines); told != coroutines {
				t.Errorf("notices %q", src.Info().Notices)
			}
			r.finish(success)
			got.wait(t)
			if diff := cmp.Diff(c.rows, tally(got.strings("function_name"))); diff != "" {
				t.Error(diff)
			}
			if n := got.counts["foreign stack"]; n != c.foreign || len(got.lost) > 0 || got.counts["unfinished"] > 0 {
				t.Errorf("counts %v, lost %v; want %d on foreign stacks", got.counts, got.lost, c.foreign)
			}
		})
	}
}
