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

// servesLogged serves a request for each line of its input, slowly if the number is
// negative, and answers with the calls that it made: "E f" and "L f", separated by commas.
const servesLogged = `#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define NOINLINE __attribute__((noinline, noclone))
volatile long sink;
static char told[1 << 16];
static void note(const char *what) { strcat(told, what); }
NOINLINE long parse(long n) { note("E parse,"); sink += n; note("L parse,"); return n; }
NOINLINE long plan(long n) { note("E plan,"); for (long i = 0; i < n; i++) sink += parse(i); note("L plan,"); return n; }
NOINLINE long handle(long n) { note("E handle,"); sink += plan(labs(n)); if (n < 0) usleep(60000); note("L handle,"); return n; }
int main(void) {
	char line[64];
	setbuf(stdout, 0);
	puts("ready");
	while (fgets(line, sizeof line, stdin)) {
		told[0] = 0;
		sink += handle(atol(line));
		puts(told);
	}
	return 0;
}
`

// A slow call of a program recalls the calls that the program itself says it made, those of
// the fast requests before included, and samples of its stack.
func TestTriggerRecalls(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, servesLogged, "-O1"))
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
	lines.Buffer(nil, 1<<20)
	if lines.Scan(); lines.Text() != "ready" {
		t.Fatalf("the program said %q", lines.Text())
	}
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	run(t, s, `CREATE TRIGGER slow ON function_duration WHEN function_name = 'handle' AND duration > 50ms AND arg0 < 0
BEGIN RECALL function_call WHERE function_name IN (handle, plan, parse) LAST 1h; RECALL SAMPLE(stack_sample, 10ms) LAST 1min END`)
	testenv.Until(t, "stacks are sampled", func() bool {
		return number(t, run(t, s, "SELECT SUM(acquired) FROM sys.queries WHERE statement LIKE 'CREATE TRIGGER%'"), 0, 0) >= 5
	})
	var log []string
	positions := []int{0} // after each slow request
	for _, n := range []int{3, 5, -2, 0, 4, -7} {
		fmt.Fprintln(in, n)
		lines.Scan()
		log = append(log, strings.Split(strings.TrimSuffix(lines.Text(), ","), ",")...)
		if n < 0 {
			positions = append(positions, len(log))
		}
	}
	testenv.Until(t, "both requests were slow", func() bool { return triggerColumn(t, s, "slow", "activations") == "2" })
	run(t, s, "DROP TRIGGER slow")
	a := triggered(t, s)
	complete(t, a)
	calls, samples := map[string][]string{}, map[string]int{}
	for _, r := range a.rows {
		var row struct {
			Recalled *int
			Event    string
			Function string `json:"function_name"`
			Thread   string `json:"thread_name"`
			Complete *bool
			Reason   string
			Stack    json.RawMessage
		}
		if err := json.Unmarshal([]byte(r[4]), &row); err != nil {
			t.Fatalf("%v: %s", err, r[4])
		}
		switch activation := r[2]; {
		case strings.Contains(r[3], "stack_sample"):
			if row.Stack != nil {
				samples[activation]++
			}
		case row.Recalled != nil:
			if *row.Complete || row.Reason != "" { // the trigger is younger than an hour
				t.Errorf("activation %s: %s", activation, r[4])
			}
			if want := positions[len(calls)+1]; *row.Recalled != want {
				t.Errorf("activation %s recalled %d events of %d", activation, *row.Recalled, want)
			}
			calls[activation] = []string{}
		default:
			if row.Thread == "" {
				t.Errorf("a row without a thread: %s", r[4])
			}
			calls[activation] = append(calls[activation], row.Event[:1]+" "+row.Function)
		}
	}
	for i, activation := range []string{"1", "2"} {
		if want := log[:positions[i+1]]; !slices.Equal(calls[activation], want) {
			t.Errorf("activation %s recalled %v, want %v", activation, calls[activation], want)
		}
		if samples[activation] < 2 {
			t.Errorf("activation %s recalled %d stacks", activation, samples[activation])
		}
	}
}

// What the kernel cannot evaluate is refused, and nothing remains attached.
func TestTriggerRecallRefusals(t *testing.T) {
	testenv.NeedUprobes(t)
	cmd := exec.Command(testenv.CompileCText(t, servesLogged, "-O1"))
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	for statement, want := range map[string]string{
		"function_duration WHEN function_name = 'handle' AND sqrt(arg0) > 2 BEGIN RECALL function_call WHERE function_name = 'plan' LAST 1s END": "does not evaluate",
		"function_duration WHEN function_name = 'handle' BEGIN RECALL function_call WHERE function_name = 'plan' AND caller = 'x' LAST 1s END":   "RECALL records no",
		"function_duration WHEN function_name = 'handle' BEGIN RECALL function_call WHERE function_name = 'nonsense' LAST 1s END":                "nonsense",
	} {
		if got := refusal(t, s, "CREATE TRIGGER t ON "+statement); !strings.Contains(got, want) {
			t.Errorf("%s: %s", statement, got)
		}
	}
	if left := attachedBy(t, s); len(left) > 0 {
		t.Errorf("%v are still probed", left)
	}
	explained := fmt.Sprint(run(t, s, "EXPLAIN CREATE TRIGGER t ON function_duration WHEN function_name = 'handle' AND duration > 50ms BEGIN RECALL function_call WHERE function_name = 'plan' LAST 1s; RECALL stack_sample LAST 2s END").rows)
	for _, want := range []string{"recorded in the kernel all the time: the last 4096 events of each of 511 threads", "sampled all the time; the last 2s are kept"} {
		if !strings.Contains(explained, want) {
			t.Errorf("EXPLAIN does not say %q: %s", want, explained)
		}
	}
}
