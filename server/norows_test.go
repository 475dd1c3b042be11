package server_test

import (
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// silentC waits for a byte, and then calls work for each c of its argument; with b it uses
// processor time without end, with s a little.
const silentC = `#include <stdio.h>
#include <time.h>
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) void work(long n) { sink += n; }
__attribute__((noinline)) void never(long n) { sink -= n; }
int main(int argc, char **argv) {
	char go;
	puts("ready"); fflush(stdout);
	if (read(0, &go, 1) != 1) return 1;
	for (char *c = argv[1]; *c; c++) {
		if (*c == 'c') work(1);
		if (*c == 's') for (clock_t from = clock(); clock() - from < CLOCKS_PER_SEC / 10;) sink++;
		if (*c == 'b') for (;;) sink++;
	}
	if (argc > 9) never(1);
	return 0;
}`

// A result without rows says why.
func TestNoRowsSayWhy(t *testing.T) {
	testenv.NeedUprobes(t)
	exe := testenv.CompileCText(t, silentC, "-O1")
	for _, c := range []struct {
		name, does, query, want string
	}{
		{"idle", "", "SELECT timestamp FROM function_start WHERE function_name = 'never' FOR 300ms", "nothing found: never was not called: the program was idle"},
		{"busy", "b", "SELECT timestamp FROM function_start WHERE function_name = 'never' FOR 2s", "nothing found: never was not called"},
		{"ended", "s", "SELECT timestamp FROM function_start WHERE function_name = 'never'", "nothing found: never was not called"},
		{"several", "s", "SELECT timestamp FROM function_start WHERE function_name IN ('never', 'main')", "nothing found: none of the 2 probed functions was called"},
		{"condition in the kernel", "cc", "SELECT timestamp FROM function_start WHERE function_name = 'work' AND arg0 = 7", "nothing found: the functions were called, but no call that has ended satisfies the conditions"},
		{"condition in the engine", "cc", "SELECT timestamp FROM function_start WHERE function_name = 'work' AND SQRT(arg0) > 7", "nothing found: none of the 2 rows acquired satisfies the conditions"},
		{"found", "c", "SELECT timestamp FROM function_start WHERE function_name = 'work'", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := startWaiting(t, exe, c.does)
			s := newSession(t, wire.Options{PID: p.pid()})
			r := start(t, s, c.query)
			if c.does != "" {
				p.goOn()
			}
			notes := read(t, r).summary.Notes
			notes = slices.DeleteFunc(notes, func(n string) bool { return !strings.HasPrefix(n, "nothing found") })
			if c.want == "" && len(notes) > 0 || c.want != "" && !slices.Equal(notes, []string{c.want}) {
				t.Errorf("%q\nwant %q", notes, c.want)
			}
		})
	}
}
