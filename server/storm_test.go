package server_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// shortLived calls a function as often as its argument says, logs that, and exits or is
// killed.
const shortLived = `
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
__attribute__((noinline)) void tick(long n) { __asm__ volatile("" :: "r"(n)); }
int main(int argc, char **argv) {
	int n = atoi(argv[2]);
	char line[64];
	int len = snprintf(line, sizeof line, "%d %d\n", getpid(), n);
	if (write(open(argv[1], O_WRONLY | O_APPEND), line, len) != len) return 99;
	for (long i = 0; i < n; i++) tick(i);
	if (n % 7 == 3) raise(SIGKILL);
	return n % 50;
}
`

// stormOf starts 100 of them, in each way that there is, eight at a time.
const stormOf = `
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
int main(int argc, char **argv) {
	char n[12];
	char *args[] = {argv[1], argv[2], n, "two\nlines", "", "\xff\xfe", 0};
	puts("ready");
	fflush(stdout);
	fgets(n, sizeof n, stdin);
	for (int i = 0; i < 100; i++) {
		if (i >= 8) wait(0);
		snprintf(n, sizeof n, "%d", i % 20 + 1);
		pid_t pid = 0;
		switch (i % 3) {
		case 0: if (!(pid = vfork())) { execv(args[0], args); _exit(98); } break;
		case 1: if (!(pid = fork())) { execv(args[0], args); _exit(98); } break;
		case 2: posix_spawn(&pid, args[0], 0, 0, args, environ); break;
		}
	}
	while (wait(0) > 0);
	pause();
}
`

// Of processes that live for a moment, many at a time, every call is counted, and how each
// has ended is what it says itself.
func TestStormOfProcesses(t *testing.T) {
	testenv.NeedUprobes(t)
	child := filepath.Join(t.TempDir(), "child")
	if err := os.Rename(testenv.CompileCText(t, shortLived, "-O1"), child); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(log, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	storm := startWaiting(t, testenv.CompileCText(t, stormOf, "-O1"), child, log)
	s := newSession(t, wire.Options{})
	const calls = 100 / 20 * (20 * 21 / 2)
	of := func(query string, n int) wire.Result {
		return start(t, s, fmt.Sprintf(query+" LIMIT %d", child, n))
	}
	ticks := of("SELECT pid FROM function_start WHERE exe = '%s' AND function_name = 'tick'", calls)
	ends := of("SELECT pid, exit_code, signal FROM process_end WHERE exe = '%s'", 100)
	execs := of("SELECT pid FROM process_exec WHERE exe = '%s'", 100)
	storm.goOn()

	counted := map[string]int{}
	for _, row := range read(t, ticks).rows {
		counted[row[0]]++
	}
	ended, executed := read(t, ends).rows, read(t, execs).rows
	said, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	wantCounts, wantEnds := map[string]int{}, [][]string{}
	for line := range strings.Lines(string(said)) {
		var pid string
		var n int
		if _, err := fmt.Sscan(line, &pid, &n); err != nil {
			t.Fatal(err)
		}
		wantCounts[pid] = n
		end := []string{pid, fmt.Sprint(n % 50), "NULL"}
		if n%7 == 3 {
			end = []string{pid, "NULL", "SIGKILL"}
		}
		wantEnds = append(wantEnds, end)
	}
	byPID := func(a, b []string) int { return strings.Compare(a[0], b[0]) }
	slices.SortFunc(ended, byPID)
	slices.SortFunc(wantEnds, byPID)
	if diff := cmp.Diff(wantCounts, counted); diff != "" {
		t.Errorf("calls: -what they say +what was counted\n%s", diff)
	}
	if diff := cmp.Diff(wantEnds, ended); diff != "" {
		t.Errorf("ends: -what they say +what was seen\n%s", diff)
	}
	if len(executed) != 100 || slices.ContainsFunc(executed, func(row []string) bool { return wantCounts[row[0]] == 0 }) {
		t.Errorf("%d were executed: %q", len(executed), executed)
	}
}
