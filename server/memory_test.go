package server_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// leaking is a program that says how many allocations it does not release, and how
// many bytes they are, of each function.
const leaking = `
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#define NOINLINE __attribute__((noinline, noclone))
static void *volatile kept;
NOINLINE void parses(int n) { char *b = malloc(n); if (n % 3) free(b); else kept = b; }
NOINLINE void caches(int n) { char *b = calloc(n, 2); b = realloc(b, 3 * n); if (n % 10) free(b); else kept = b; }
NOINLINE void clean(int n) { void *b; if (!posix_memalign(&b, 64, n)) free(b); }
NOINLINE void handles(void) { for (int n = 1; n <= 300; n++) { parses(n); caches(n); clean(n); } }
static void *work(void *p) { handles(); return 0; }
int main(void) {
	char line[10];
	puts("ready"); fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	pthread_t t;
	pthread_create(&t, 0, work, 0);
	handles();
	pthread_join(t, 0);
	puts("done"); fflush(stdout);
	if (!fgets(line, sizeof line, stdin)) return 1;
	return 0;
}`

// What leaks is what is allocated and has no release after it: to the byte what the
// program did not release, and by the function that asked for it.
func TestLeaks(t *testing.T) {
	testenv.NeedUprobes(t)
	target := testenv.CompileCText(t, leaking, "-O1", "-fno-builtin", "-pthread", "-fno-optimize-sibling-calls")
	cmd := exec.Command(target)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { in.Close(); cmd.Wait() }()
	said := bufio.NewScanner(out)
	said.Scan()
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	r := start(t, s, `SELECT a.caller, a.function_name, COUNT(*), SUM(a.size), MIN(frame(a.stack, 2))
		FROM allocation a LEFT WINDOW JOIN deallocation d WINDOW 1h a FOLLOWED BY d ON a.address = d.address
		WHERE d.address IS NULL GROUP BY a.caller, a.function_name`)
	whole := start(t, s, `SELECT function_name, COUNT(*), SUM(size), MAX(size) FROM allocation WHERE size <= 900 GROUP BY function_name`)
	fmt.Fprintln(in, "go")
	said.Scan()
	fmt.Fprintln(in, "go")
	a := read(t, r)
	complete(t, a)
	got := map[string]string{}
	for _, row := range a.rows {
		got[row[0]+" "+row[1]] = strings.Join(row[2:], " ")
	}
	bytes := func(step, times int) (n, sum int) {
		for k := step; k <= 300; k += step {
			n, sum = n+2, sum+2*times*k
		}
		return n, sum
	}
	n, sum := bytes(3, 1)
	if want := fmt.Sprint(n, " ", sum, " handles"); got["parses malloc"] != want {
		t.Errorf("parses leaks %q, want %q (%v)", got["parses malloc"], want, got)
	}
	n, sum = bytes(10, 3)
	if want := fmt.Sprint(n, " ", sum, " handles"); got["caches realloc"] != want {
		t.Errorf("caches leaks %q, want %q (%v)", got["caches realloc"], want, got)
	}
	for _, other := range []string{"caches calloc", "clean posix_memalign"} {
		if got[other] != "" {
			t.Errorf("%s leaks %s", other, got[other])
		}
	}
	b := read(t, whole)
	complete(t, b)
	sums := map[string]string{}
	for _, row := range b.rows {
		sums[row[0]] = strings.Join(row[1:], " ")
	}
	if sums["realloc"] != "600 270900 900" || sums["posix_memalign"] != "600 90300 300" {
		t.Error(sums)
	}
}
