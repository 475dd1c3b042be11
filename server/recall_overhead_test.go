package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// servesTicking serves a request for each line of its input, slowly if the number is negative,
// and answers each. A thread of its own calls tick all the time.
const servesTicking = `#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
NOINLINE long tick(long n) { sink += n; __asm__ volatile("" ::: "memory"); return n; }
NOINLINE long parse(long n) { sink += n; __asm__ volatile("" ::: "memory"); return n; }
NOINLINE long plan(long n) { for (long i = 0; i < n; i++) sink += parse(i); sink++; return n; }
NOINLINE long handle(long n) { sink += plan(labs(n)); if (n < 0) usleep(60000); sink++; return n; }
static void *work(void *unused) { for (long i = 0;; i++) { tick(i); for (int k = 0; k < 200; k++) sink += k; } }
int main(void) {
	char line[64];
	pthread_t t;
	setbuf(stdout, 0);
	pthread_create(&t, 0, work, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		sink += handle(atol(line));
		puts("done");
	}
	return 0;
}
`

// Within an overhead, functions that cost too much are left out of what is recorded: one from
// the beginning, another when it is called often. The summary names them; the calls of the others
// are the program's, and none of them is said to have been left without returning.
func TestRecallWithinOverhead(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, servesTicking, "-O1", "-pthread"))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	serve := func(n int) {
		if n != 0 {
			fmt.Fprintln(in, n)
		}
		if !lines.Scan() {
			t.Fatal("the program has ended")
		}
	}
	serve(0) // it is ready
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	testenv.Until(t, "it is found out that tick costs too much", func() bool { // not while the target has no processor
		created := run(t, s, `CREATE OR REPLACE TRIGGER slow ON function_duration WHEN function_name = 'handle' AND duration > 50ms AND arg0 < 0
BEGIN RECALL function_call WHERE function_name IN (handle, plan, parse, tick) LAST 1h WITHIN OVERHEAD 2% END`)
		return strings.Contains(strings.Join(created.notices, "\n"), "RECALL leaves out what would cost more than the overhead: tick")
	})
	serve(3)
	serve(-2)
	for range 5 { // parse costs a multiple of what is allowed
		serve(1_000_000)
	}
	serve(-1)
	serve(5)
	serve(-4)
	testenv.Until(t, "three requests were slow", func() bool { return triggerColumn(t, s, "slow", "activations") == "3" })
	run(t, s, "DROP TRIGGER slow")
	summaries, sequences := recalledBy(t, s)
	if len(summaries) != 3 {
		t.Fatalf("%d summaries", len(summaries))
	}
	for i, want := range []string{"tick", "tick, parse", "tick, parse"} {
		if want = "left out, since they cost too much: " + want; summaries[i].Reason != want || summaries[i].Complete {
			t.Errorf("activation %d: %+v, want the reason %q", i+1, summaries[i], want)
		}
	}
	first := strings.Fields("E.handle E.plan E.parse L.parse E.parse L.parse E.parse L.parse L.plan L.handle E.handle E.plan E.parse L.parse E.parse L.parse L.plan L.handle")
	if !slices.Equal(sequences[0], first) {
		t.Errorf("the first slow request recalled %v, want %v", sequences[0], first)
	}
	last := sequences[len(sequences)-1]
	if tail := strings.Fields("E.handle E.plan L.plan L.handle E.handle E.plan L.plan L.handle"); len(last) < len(tail) || !slices.Equal(last[len(last)-len(tail):], tail) {
		t.Errorf("the last slow request recalled %d calls, at the end %v, want %v", len(last), last[max(0, len(last)-2*len(tail)):], tail)
	}
	for i, sequence := range sequences {
		if k := slices.IndexFunc(sequence, func(e string) bool { return e[0] == 'U' || strings.HasSuffix(e, "tick") }); k >= 0 {
			t.Errorf("activation %d recalled %s", i+1, sequence[k])
		}
	}
}

// summary is the first row of what was recalled.
type summary struct {
	Recalled *int
	Complete bool
	Reason   string
}

// recalledBy returns what the activations of the session's trigger recalled: the initial of each event with its function.
func recalledBy(t *testing.T, s wire.Session) (summaries []summary, sequences [][]string) {
	t.Helper()
	for _, r := range triggered(t, s).rows {
		var row struct {
			summary
			Event    string
			Function string `json:"function_name"`
		}
		if err := json.Unmarshal([]byte(r[4]), &row); err != nil {
			t.Fatalf("%v: %s", err, r[4])
		}
		if row.Recalled != nil {
			summaries, sequences = append(summaries, row.summary), append(sequences, []string{})
			continue
		}
		last := len(sequences) - 1
		sequences[last] = append(sequences[last], row.Event[:1]+"."+row.Function)
	}
	return summaries, sequences
}
