package server_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// Statements give the same with the kernel's help and without it, at the same
// time over the same calls, and EXPLAIN says where conditions are tested.
func TestKernelOnAndOff(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, `
#include <stdio.h>
volatile long sink;
__attribute__((noinline, noclone)) long inner(long a, long b) { sink += a; return a - b; }
__attribute__((noinline, noclone)) long outer(long a) { sink += a; return inner(a, 7) + inner(a * 2, 5) + 1; }
int main(void) {
	char b[8];
	puts("ready"); fflush(stdout);
	if (!fgets(b, sizeof b, stdin)) return 9;
	for (long i = 0; i < 200; i++) outer(i);
}
`, "-O1", "-fno-optimize-sibling-calls")
	cmd := exec.Command(target)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	bufio.NewScanner(out).Scan()

	on, off := newSession(t, wire.Options{PID: cmd.Process.Pid}), newSession(t, wire.Options{PID: cmd.Process.Pid})
	read(t, start(t, off, "SET kernel = off"))
	names := "function_name IN (inner, outer)"
	conditions := []string{
		"arg0 = 20",
		"arg0 BETWEEN 10 AND 15 AND function_name LIKE 'i%'",
		"function_name = 'outer' OR retval < 0",
		"arg0 % 50 = 3 AND duration < 1h",
		"NOT (arg0 > 5 OR arg1 = 7) AND depth = 1",
		"thread_name LIKE 'tar%' AND arg0 + 1 = 5",
		"thread_name LIKE '%get' AND arg0 = 6",
		"retval IN (-7, 35, 36, 37) AND CAST(arg0 AS DOUBLE) > 1.5",
		"duration > 1h",
	}
	type pair struct{ on, off wire.Result }
	var pairs []pair
	for _, c := range conditions {
		q := fmt.Sprintf("SELECT function_name, retval FROM function_duration WHERE %s AND (%s)", names, c)
		pairs = append(pairs, pair{start(t, on, q), start(t, off, q)})
	}
	counts := pair{start(t, on, "SELECT COUNT(*) FROM function_start WHERE "+names+" AND arg0 >= 100"),
		start(t, off, "SELECT COUNT(*) FROM function_start WHERE "+names+" AND arg0 >= 100")}

	for s, want := range map[wire.Session]string{on: "(kernel)", off: "(server)"} {
		plan := read(t, start(t, s, "EXPLAIN SELECT timestamp FROM function_start WHERE function_name = 'outer' AND arg0 = 3"))
		if i := slices.IndexFunc(plan.rows, func(r []string) bool { return strings.Contains(r[0], "filter") && strings.HasSuffix(r[0], want) }); i < 0 {
			t.Errorf("no filter %s in %v", want, plan.rows)
		}
	}

	fmt.Fprintln(in, "go")
	for i, c := range conditions {
		a, b := read(t, pairs[i].on), read(t, pairs[i].off)
		complete(t, a)
		complete(t, b)
		if diff := cmp.Diff(b.rows, a.rows); diff != "" {
			t.Errorf("%s\nwithout and with the kernel: %s", c, diff)
		}
		if len(b.rows) == 0 && c != "duration > 1h" {
			t.Errorf("%s: no rows", c)
		}
	}
	// outer 100-199, inner(a) 100-199, inner(2a) from a = 50 on.
	if a, b := number(t, read(t, counts.on), 0, 0), number(t, read(t, counts.off), 0, 0); a != 350 || b != 350 {
		t.Errorf("counts %d with the kernel, %d without, want 350", a, b)
	}
}

func TestSetKernelTakesOnAndOff(t *testing.T) {
	s := newSession(t, wire.Options{})
	if _, err := s.Execute(t.Context(), "SET kernel = maybe"); err == nil || !strings.Contains(err.Error(), "kernel is one of on, off") {
		t.Errorf("maybe: %v", err)
	}
	read(t, start(t, s, "SET kernel = OFF"))
}
