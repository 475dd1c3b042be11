package uprobe

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// torture does everything that crashes programs with return traps. It prints its
// results, and ends during calls.
const torture = prelude + `
#include <signal.h>
#include <ucontext.h>
#include <spawn.h>
#include <stdint.h>
extern char **environ;
static jmp_buf env;
static ucontext_t host, guest;
static long total;
NOINLINE long leaf(long n) { sink += n; return n; }
NOINLINE long several(long n) {
	char room[64]; memset(room, n, sizeof room);
	if (n % 5 == 0) return leaf(room[3]);
	if (n % 5 == 1) { for (int i = 0; i < 3; i++) total += leaf(room[i]); return n; }
	switch (n % 7) { case 0: return leaf(n) * 2; case 1: return leaf(n) ^ 3; case 2: return 9; case 3: return leaf(1) + leaf(2); default: return room[7]; }
}
NOINLINE long big(long n) { volatile char room[20000]; room[n] = n; return leaf(room[n]) + several(n); }
NOINLINE long many(long a, long b, long c, long d, long e, long f, long g, long h) { return leaf(a + g) + b + c + d + e + f + h; }
NOINLINE long down(long n) { return n ? down(n - 1) + 1 : leaf(0); }
NOINLINE long even(long n); NOINLINE long odd(long n) { return n ? even(n - 1) : 0; }
NOINLINE long even(long n) { sink++; return n ? odd(n - 1) : 1; }
NOINLINE long leap(long n) { if (n == 0) longjmp(env, 1); return leap(n - 1) + leaf(n); }
NOINLINE long catches(long n) { if (setjmp(env)) return leaf(n); return leap(n); }
NOINLINE long hop(long n) { swapcontext(&guest, &host); return leaf(n); }
static void body(void) { for (long n = 0;; n++) total += hop(n); }
NOINLINE void quits(long n) { leaf(n); pthread_exit((void *)n); }
NOINLINE long nested(long n) { quits(n); return leaf(n); }
static void clean(void *p) { total += leaf((long)p); }
static void *work(void *p) { pthread_cleanup_push(clean, p); nested((long)p); pthread_cleanup_pop(0); return 0; }
NOINLINE long forks(long n) { fflush(stdout); pid_t c = fork(); if (c == 0) { if (n % 2) return -1; exit(leaf(n)); } int st; waitpid(c, &st, 0); return WEXITSTATUS(st); }
static void on(int s) { total += leaf(s); }
NOINLINE long spawns(char *self) { pid_t c; char *a[] = {self, "child", 0}; int st; fflush(stdout); if (posix_spawn(&c, self, 0, 0, a, environ)) return -1; waitpid(c, &st, 0); return WEXITSTATUS(st); }
NOINLINE void again(char *self) { char *a[] = {self, "last", 0}; fflush(stdout); execv(self, a); }
static int order(const void *a, const void *b) { return (int)leaf(*(int *)a) - *(int *)b; }
__attribute__((noinline, noreturn)) void dies(int n) { leaf(n); fflush(stdout); exit(n); }
int main(int argc, char **argv) {
	if (argc > 1 && !strcmp(argv[1], "child")) return leaf(7);
	if (argc > 1) { printf("exec %ld\n", several(3)); dies(0); }
	ready();
	for (long i = 0; i < 60; i++) total += several(i) + big(i) + many(1, 2, 3, 4, 5, 6, i, 8);
	printf("several %ld\n", total);
	printf("down %ld\n", down(300));
	printf("odd %ld %ld\n", odd(101), even(100));
	for (long i = 0; i < 10; i++) total += catches(i);
	printf("leap %ld\n", total);
	getcontext(&guest);
	guest.uc_stack.ss_sp = malloc(65536); guest.uc_stack.ss_size = 65536;
	makecontext(&guest, body, 0);
	for (int i = 0; i < 20; i++) { swapcontext(&host, &guest); leaf(i); }
	printf("hop %ld\n", total);
	for (long i = 0; i < 10; i++) { pthread_t t; void *r; pthread_create(&t, 0, work, (void *)i); pthread_join(t, &r); total += (long)r; }
	printf("quits %ld\n", total);
	for (long i = 0; i < 6; i++) { long r = forks(i); if (r < 0) _exit(40 + leaf(i)); total += r; }
	printf("forks %ld\n", total);
	stack_t st = { .ss_sp = malloc(65536), .ss_size = 65536 };
	sigaltstack(&st, 0);
	struct sigaction sa = { .sa_handler = on, .sa_flags = SA_ONSTACK };
	sigaction(SIGUSR1, &sa, 0);
	for (int i = 0; i < 10; i++) { raise(SIGUSR1); leaf(i); }
	printf("signals %ld\n", total);
	int v[50]; for (int i = 0; i < 50; i++) v[i] = i * 37 % 50;
	qsort(v, 50, sizeof *v, order);
	printf("sorted %d %d %d\n", v[0], v[25], v[49]);
	printf("spawns %ld\n", spawns(argv[0]));
	again(argv[0]);
	return 9;
}
`

// Exits of all functions of a program and of its C library can be probed: the program
// behaves as without probes, and every call that was entered is a row or counted.
func TestProgramsSurviveExitProbes(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{
		{"-O0"}, {"-O2"}, {"-Os"}, {"-O2", "-fcf-protection"}, {"-O1", "-fno-omit-frame-pointer"}, {"-O2", "-fstack-protector-all"}, {"-O2", "-static"},
	} {
		t.Run(strings.Join(flags, " "), func(t *testing.T) {
			target := testenv.CompileCText(t, torture, append(flags, "-pthread", "-fno-stack-clash-protection")...)
			plain := exec.Command(target)
			plain.Stdin = strings.NewReader("go\n")
			out, err := plain.Output()
			if err != nil {
				t.Fatalf("without probes: %v", err)
			}
			want := strings.Split(strings.TrimPrefix(string(bytes.TrimSpace(out)), "ready\n"), "\n")

			p := provider(t, Options{MaxProbes: 50_000, RingBytes: 64 << 20})
			r := run(t, target)
			exe := plan.Target{Exes: []string{target}}
			sources := map[string]plan.Expr{"own": nil}
			if flags[0] == "-O2" && len(flags) == 1 {
				sources["libc"] = testplan.Is(plan.SelectModule, "libc.so.6")
			}
			records := map[string]*record{}
			var stops []func() error
			for name, sel := range sources {
				src, got := start(t, p, byExits(catalog.FunctionDuration, exe, sel, "function_name", "duration"))
				records[name] = got
				stops = append(stops, src.Stop)
			}
			if got := r.finish(success); !slices.Equal(got, want) {
				t.Errorf("with probes the program says\n%s\nwithout\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			var entered uint64
			for _, s := range p.Probes() {
				entered += s.Hits
			}
			for _, stop := range stops {
				stop()
			}
			var told uint64
			for name, got := range records {
				told += uint64(len(got.rows)) + got.counts["unfinished"]
				if len(got.lost) > 0 {
					t.Errorf("%s: lost %v", name, got.lost)
				}
				for cause := range got.counts {
					if cause != "unfinished" {
						t.Errorf("%s: counts %v", name, got.counts)
					}
				}
				for _, d := range got.ints("duration") {
					if d < 0 {
						t.Fatalf("%s: a call took %d", name, d)
					}
				}
				t.Logf("%s: %d calls, %d unfinished", name, len(got.rows), got.counts["unfinished"])
			}
			if told != entered {
				t.Errorf("%d calls were entered, %d told of", entered, told)
			}
			// Each call of a function that is not inlined is a row, or was left by
			// longjmp, by the end of its thread or process, or by exec.
			rows := tally(records["own"].strings("function_name"))
			for name, n := range map[string]int{
				"several": 60 + 60 + 1, "big": 60, "many": 60, "catches": 10, "hop": 19, "spawns": 1, "forks": 6,
				"again": 0, "quits": 0, "nested": 0, "dies": 0, "leap": 0,
			} {
				if rows[name] != n {
					t.Errorf("%d rows of %s, want %d", rows[name], name, n)
				}
			}
			if n := rows["down"]; flags[0] == "-O0" && n != 301 {
				t.Errorf("%d rows of down, want 301", n)
			}
		})
	}
}
