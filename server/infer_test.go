package server_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// callers has functions whose calls follow from those of others, and functions
// for which that would be wrong: each of the latter is called another number of
// times than what calls it. What follows is noted beside.
const callers = `
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#define kept __attribute__((noinline, noipa))
#define shown kept __attribute__((visibility("default")))
static jmp_buf out;
volatile long sink;

static kept long leaf(long x) { sink += x; return x * 3; }        // middle
static kept long middle(long x) { return leaf(x + 1) + 1; }        // outer
shown long outer(long x) { return middle(x) - 1; }

static kept long shared(long x) { sink -= x; return x; }           // left + right
shown long left(long x) { return shared(x) + 1; }
shown long right(long x) { return shared(x + 1) + 2; }

static kept long twice(long x) { sink ^= x; return x + 5; }        // 2 x doubler
shown long doubler(long x) { return twice(x) + twice(x + 1); }

static kept long behind(long x) { sink += 2 * x; return x; }       // thunk
shown long thunk(long x) { return behind(x + 9); }

static kept long joined(long x) { sink += 3 * x; return x; }       // fork_and_join
shown long fork_and_join(long x) { if (x & 1) sink += 7; return joined(x) + 1; }

static kept long sometimes(long x) { sink += x; return x; }
shown long chooser(long x) { return x & 3 ? sometimes(x) + 1 : 1; }

static kept long unless(long x) { sink += x; return x; }
shown long leaver(long x) { if (x % 7 == 0) return 0; return unless(x) + 1; }

static kept long many(long x) { sink += x; return x; }
shown long looper(long x) { long s = 0; for (long i = 0; i < x % 5; i++) s += many(i); return s; }

static kept long deep(long x) { if (x <= 0) return 0; long below = deep(x - 1); sink += below; return below + 1; }
shown long diver(long x) { return deep(x % 4) + 1; }

static kept long may_leave(long x) { if (x % 3 == 0) longjmp(out, 1); return x; }    // jumper
static kept long afterwards(long x) { sink += x; return x; }
shown long jumper(long x) { may_leave(x); return afterwards(x) + 1; }

static kept long pointed(long x) { sink += x; return x; }
static long (*volatile pointer)(long) = pointed;
shown long caller(long x) { return pointed(x) + 1; }

int main(void) {
	char b[8];
	puts("ready"); fflush(stdout);
	if (!fgets(b, sizeof b, stdin)) return 9;
	for (volatile long i = 0; i < 1000; i++) {
		outer(i); left(i); if (i & 1) right(i); doubler(i); thunk(i); fork_and_join(i);
		chooser(i); leaver(i); looper(i); diver(i); caller(i); if (i % 5 == 0) pointer(i);
		if (!setjmp(out)) jumper(i);
	}
	puts("done"); fflush(stdout);
	return fgets(b, sizeof b, stdin) ? 0 : 8;
}
`

// follow are the functions of callers that need no probe.
var follow = map[string]string{
	"middle": "outer", "leaf": "outer", "shared": "left + right", "twice": "2 x doubler", "behind": "thunk", "joined": "fork_and_join", "may_leave": "jumper",
}

// stepper is a program that says when it is ready, and goes on when it is told.
type stepper struct {
	pid int
	in  io.WriteCloser
	out *bufio.Scanner
}

func startStepper(t testing.TB, path string) *stepper {
	t.Helper()
	cmd := exec.Command(path)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	p := &stepper{cmd.Process.Pid, in, bufio.NewScanner(out)}
	p.out.Scan()
	return p
}

func (p *stepper) step() {
	fmt.Fprintln(p.in, "go")
	p.out.Scan()
}

// Counts are the same whether functions are probed or follow from others, in
// every form in which only counts can be asked.
func TestInferredCounts(t *testing.T) {
	testenv.NeedUprobes(t)
	for _, flags := range [][]string{{"-O2"}, {"-O2", "-no-pie", "-static"}, {"-O1", "-fcf-protection", "-fno-optimize-sibling-calls"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			p := startStepper(t, testenv.CompileCText(t, callers, append(flags, "-rdynamic")...))
			on, off := newSession(t, wire.Options{PID: p.pid}), newSession(t, wire.Options{PID: p.pid})
			ask(t, off, "SET infer_counts = 'off'")
			const some = "'outer', 'middle', 'leaf', 'left', 'right', 'shared', 'doubler', 'twice', 'thunk', 'behind', 'fork_and_join', 'joined', 'jumper', 'may_leave'"
			const others = "'chooser', 'sometimes', 'leaver', 'unless', 'looper', 'many', 'diver', 'deep', 'jumper', 'afterwards', 'caller', 'pointed'"
			const names = "(" + some + ", " + others + ")"
			const byName = "SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN " + names + " GROUP BY function_name ORDER BY function_name"
			queries := []string{
				byName,
				"SELECT COUNT(*) FROM function_start WHERE function_name IN " + names,
				"SELECT module, COUNT(*) FROM function_start WHERE function_name IN " + names + " GROUP BY module",
				"SELECT function_name, tid, COUNT(*) FROM function_start WHERE function_name IN " + names + " GROUP BY function_name, tid ORDER BY function_name",
				"SELECT window_start, function_name, COUNT(*), RATE(*) FROM TUMBLE(function_start, 24h) WHERE function_name IN " + names + " GROUP BY window_start, function_name ORDER BY function_name",
				"SELECT tid, COUNT(*) FROM function_start WHERE function_name IN " + names + " GROUP BY tid",
				"SELECT function_name, COUNT(*) FILTER (WHERE pid % 2 = 0) AS n FROM function_start WHERE thread_name LIKE 'tar%' AND function_name IN " + names + " GROUP BY function_name ORDER BY function_name",
				"SELECT function_name, COUNT(*) FROM function_start WHERE arg0 >= 500 AND function_name IN " + names + " GROUP BY function_name ORDER BY function_name",
				"SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN ('leaf', 'joined', 'middle') GROUP BY function_name ORDER BY function_name",
				"SELECT function_name, COUNT(*) FROM function_start WHERE function_name IN ('outer', 'leaf', 'left', 'shared') GROUP BY function_name ORDER BY function_name",
			}
			got := map[string]string{}
			for _, list := range []string{some, others} { // EXPLAIN names 20
				statement := "EXPLAIN SELECT COUNT(*) FROM function_start WHERE function_name IN (" + list + ")"
				for _, row := range ask(t, on, statement).rows {
					if site, from, ok := strings.Cut(row[0], ": no probe, inferred from "); ok {
						got[strings.Fields(site)[1]] = from
					}
				}
				if text := lines(ask(t, off, statement)); strings.Contains(text, "inferred") {
					t.Errorf("inferred although it is off:\n%s", text)
				}
			}
			if diff := cmp.Diff(follow, got); diff != "" {
				t.Errorf("inferred, -want +got:\n%s", diff)
			}
			var inferred, probed []wire.Result
			for _, q := range queries {
				inferred, probed = append(inferred, start(t, on, q)), append(probed, start(t, off, q))
			}
			p.step()
			for i, q := range queries {
				inferred[i].Stop()
				probed[i].Stop()
				with, without := read(t, inferred[i]), read(t, probed[i])
				complete(t, with)
				complete(t, without)
				if diff := cmp.Diff(without.rows, with.rows); diff != "" {
					t.Errorf("%s\nprobed and inferred: %s", q, diff)
				}
				if i == 0 && len(with.rows) != 25 {
					t.Errorf("%d of 25 functions were counted: %v", len(with.rows), with.rows)
				}
			}
		})
	}
}

func lines(a reply) string {
	var b strings.Builder
	for _, row := range a.rows {
		b.WriteString(row[0] + "\n")
	}
	return b.String()
}

// Of a real server all functions are counted alike, under load. It is stopped
// while queries begin and end, so that both see the same calls.
func TestInferredCountsOfRedis(t *testing.T) {
	testenv.NeedUprobes(t)
	r := startRedis(t)
	on, off := newSession(t, wire.Options{PID: r.pid}), newSession(t, wire.Options{PID: r.pid})
	ask(t, off, "SET infer_counts = 'off'")
	ask(t, on, "SET max_overhead = 0") // on a busy machine it would end one of them before the other
	ask(t, off, "SET max_overhead = 0")
	const statement = "SELECT function_name, COUNT(*) FROM function_start GROUP BY function_name ORDER BY function_name"
	plan := lines(ask(t, on, "EXPLAIN "+statement))
	if !regexp.MustCompile(`dense by function, \d+ functions inferred`).MatchString(plan) {
		t.Errorf("no function is inferred:\n%s", plan)
	}
	r.signal(t, syscall.SIGSTOP)
	defer r.signal(t, syscall.SIGCONT)
	inferred, probed := start(t, on, statement), start(t, off, statement)
	r.signal(t, syscall.SIGCONT)
	r.load(t, "-t", "set,get,lpush,lrange_100,mset", "-n", "200", "-c", "5")
	r.signal(t, syscall.SIGSTOP)
	inferred.Stop()
	probed.Stop()
	with, without := read(t, inferred), read(t, probed)
	complete(t, with)
	complete(t, without)
	if diff := cmp.Diff(without.rows, with.rows); diff != "" {
		t.Errorf("probed and inferred: %s", diff)
	}
	if len(with.rows) < 200 {
		t.Errorf("%d functions were called", len(with.rows))
	}
}

// signal stops the server or lets it go on, and waits until it does.
func (r *redis) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(r.pid, s); err != nil {
		t.Fatal(err)
	}
	testenv.Until(t, "redis-server obeys signal "+s.String(), func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.pid))
		if err != nil {
			t.Fatal(err)
		}
		_, state, _ := strings.Cut(string(stat), ") ")
		return strings.HasPrefix(state, "T") == (s == syscall.SIGSTOP)
	})
}

// Of programs that run from beginning to end every call of every function is
// counted alike.
func TestInferredCountsOfGit(t *testing.T) {
	testenv.NeedUprobes(t)
	git := filepath.Join(t.TempDir(), "git") // a copy, which nobody else runs
	testenv.CopyFile(t, testenv.NeedProgram(t, "git"), git)
	on, off := newSession(t, wire.Options{}), newSession(t, wire.Options{})
	ask(t, off, "SET infer_counts = 'off'")
	statement := "SELECT function_name, COUNT(*) FROM function_start WHERE exe = '" + git + "' GROUP BY function_name ORDER BY function_name"
	inferred := start(t, on, statement)
	hasProbe := map[string]bool{}
	for _, row := range ask(t, on, "SELECT function_name FROM sys.probes").rows {
		hasProbe[row[0]] = true
	}
	probed := start(t, off, statement)
	dir := t.TempDir()
	for _, args := range []string{"init -q", "add .", "-c user.name=a -c user.email=a@b -c maintenance.auto=false -c gc.auto=0 commit -qm x", "log -p", "status", "diff HEAD", "grep a"} {
		cmd := exec.Command(git, strings.Fields(args)...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PAGER=cat"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("git %s: %v\n%s", args, err, out)
		}
		if err := os.WriteFile(filepath.Join(dir, "file"), []byte(args+"\na\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	inferred.Stop()
	probed.Stop()
	with, without := read(t, inferred), read(t, probed)
	complete(t, with)
	complete(t, without)
	if diff := cmp.Diff(without.rows, with.rows); diff != "" {
		t.Errorf("probed and inferred: %s", diff)
	}
	n := 0
	for _, row := range with.rows {
		if !hasProbe[row[0]] {
			n++
		}
	}
	t.Logf("%d functions were called, %d of them without a probe", len(with.rows), n)
	if n == 0 {
		t.Error("no function without a probe was called")
	}
}
