package server_test

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// steered calls often() all the time if it is told to, and sign(n) and bar(n) each
// time that it gets a line, PAUSE apart.
const steered = `
#ifndef PAUSE
#define PAUSE 30000
#endif
#include <stdio.h>
#include <unistd.h>
#include <pthread.h>
volatile long sink;
__attribute__((noinline, noclone)) void sign(long n) { sink += n; }
__attribute__((noinline, noclone)) void bar(long n) { sink += n; }
__attribute__((noinline, noclone)) void often(long n) { sink += n; }
static void *busy(void *p) { for (long n = 0;; n++) often(n); return p; }
int main(int argc, char **argv) {
	pthread_t t;
	char b[16];
	if (argc > 1) pthread_create(&t, 0, busy, 0);
	setbuf(stdout, 0);
	for (long n = 0; fgets(b, sizeof b, stdin); n++) {
		sign(n);
		usleep(PAUSE);
		for (int i = 0; i < 5; i++) bar(n);
		puts("done");
	}
	return 0;
}
`

// attachedBy are the functions that have probes, as sys.probes says.
func attachedBy(t *testing.T, s wire.Session) (names []string) {
	for _, r := range run(t, s, "SELECT DISTINCT function_name FROM sys.probes WHERE provider = 'uprobe' ORDER BY 1").rows {
		names = append(names, r[0])
	}
	return names
}

// What an action will acquire is attached before there is a tuple, whatever kind of
// action it is, and again for the next one; and it has nothing of before the tuple.
func TestTriggerStandsBy(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, steered, "-O0", "-pthread", "-DPAUSE=300000")
	out := t.TempDir() + "/out.csv"
	for name, action := range map[string]string{
		"rows":      "MONITOR function_start WHERE function_name = 'bar'",
		"durations": "MONITOR function_duration WHERE function_name = 'bar'",
		"sequence":  "MONITOR function_call WHERE function_name = 'bar' AND event = 'ENTER'",
		"select":    "SELECT arg0, depth FROM function_duration WHERE function_name = 'bar' LIMIT 5",
		"aggregate": "SELECT arg0, COUNT(*) AS n FROM function_start WHERE function_name = 'bar' GROUP BY arg0 FOR 1s",
		"join":      "SELECT b.arg0 FROM function_start AS a WINDOW JOIN function_start AS b WITHIN 100us a FOLLOWED BY b ON a.function_name = 'bar' AND b.function_name = 'bar' FOR 1s",
		"insert":    "INSERT INTO file('" + out + "') SELECT arg0 FROM function_start WHERE function_name = 'bar' LIMIT 5",
	} {
		t.Run(name, func(t *testing.T) {
			cmd, in, done := startSteered(t, path)
			s := newSession(t, wire.Options{PID: cmd.Process.Pid})
			a := run(t, s, "CREATE TRIGGER t ON function_start WHEN function_name = 'sign' BEGIN NOTIFY 'now'; "+action+" END")
			for _, n := range a.notices {
				if strings.Contains(n, "some 10 ms") {
					t.Errorf("it says %s", n)
				}
			}
			for round := range 2 {
				testenv.Until(t, "bar has its probe before the tuple", func() bool {
					return slices.Contains(attachedBy(t, s), "bar") && triggerColumn(t, s, "t", "state") == "waiting"
				})
				if got := triggerColumn(t, s, "t", "arming"); got != "at once" {
					t.Fatalf("round %d: it is armed %q", round, got)
				}
				if round == 0 || name != "rows" && name != "durations" && name != "sequence" {
					fmt.Fprintln(in, "go")
					done()
				}
				if strings.HasPrefix(action, "MONITOR") {
					break // it stays on
				}
				testenv.Until(t, "its query has run", func() bool { return number(t, run(t, s, "SELECT rows FROM sys.triggers"), 0, 0) >= int64(2*(round+1)) })
			}
			in.Close()
			cmd.Wait()
			rows := triggered(t, s)
			if n := actions(rows.rows); n["NOTIFY 'now'"] == 0 || len(n) != 2 {
				t.Errorf("rows by action: %v", n)
			}
			for _, r := range rows.rows {
				if r[3] == "NOTIFY 'now'" {
					continue
				}
				// Everything is of the activation's own calls of bar.
				n := r[2]
				for _, field := range []string{`"arg0":`, `"b.arg0":`} {
					if i := strings.Index(r[4], field); i >= 0 {
						if want := fmt.Sprint(int(n[0] - '1')); !strings.HasPrefix(r[4][i+len(field):], want) {
							t.Errorf("activation %s has %s", n, r[4])
						}
					}
				}
			}
			if left := attachedBy(t, s); len(left) > 0 {
				t.Errorf("still attached: %v", left)
			}
		})
	}
}

// What would cost the target too much while it waits is attached when it is wanted,
// which is said; unless the user wants it otherwise.
func TestTriggerAttachesLateWhereWaitingCosts(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, steered, "-O0", "-pthread")
	for _, c := range []struct {
		name, arming, action string
		attached             bool
		says                 string // sys.triggers
	}{
		{"rows", "auto", "MONITOR function_start WHERE function_name = 'often' FOR 300ms", false, "of a CPU while it waits"},
		{"query", "auto", "SELECT COUNT(*) FROM function_start WHERE function_name = 'often' FOR 300ms", false, "of a CPU while it waits"},
		{"asked for", "gate", "SELECT COUNT(*) FROM function_start WHERE function_name = 'often' FOR 1ms", true, "at once"},
		{"refused", "attach", "SELECT COUNT(*) FROM function_start WHERE function_name = 'bar' FOR 1ms", false, "trigger_arming is attach"},
		{"neither", "attach", "SAMPLE(memory_usage, 1ms) FOR 300ms", false, "at once"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, in, done := startSteered(t, path, "busy")
			var h heard
			s := newSession(t, wire.Options{PID: cmd.Process.Pid, Notify: h.add})
			run(t, s, "SET trigger_arming = "+c.arming)
			a := run(t, s, "CREATE TRIGGER t ON function_start WHEN function_name = 'sign' BEGIN "+c.action+" END")
			// Where the target had no processor at first, it is found out later.
			testenv.Until(t, c.says, func() bool { return strings.Contains(triggerColumn(t, s, "t", "arming"), c.says) })
			told := func() bool {
				return slices.ContainsFunc(append(h.all(), a.notices...), func(n string) bool { return strings.Contains(n, "of a CPU while it waits") })
			}
			testenv.Until(t, "told, or not", func() bool { return told() == strings.Contains(c.says, "CPU") })
			attached := func() bool {
				return slices.ContainsFunc(attachedBy(t, s), func(name string) bool { return name != "sign" })
			}
			testenv.Until(t, fmt.Sprintf("attached: %v", c.attached), func() bool { return attached() == c.attached })
			// Twice, and again where the target had no processor while it was monitored.
			rounds := 0
			testenv.Until(t, "its action has rows", func() bool {
				rounds++
				fmt.Fprintln(in, "go")
				done()
				testenv.Until(t, "activated, and waiting again", func() bool {
					return triggerColumn(t, s, "t", "activations") == fmt.Sprint(rounds) && triggerColumn(t, s, "t", "state") == "waiting"
				})
				return rounds >= 2 && number(t, run(t, s, "SELECT rows FROM sys.triggers"), 0, 0) >= 2
			})
			testenv.Until(t, fmt.Sprintf("attached afterwards: %v", c.attached), func() bool { return attached() == c.attached })
			cmd.Process.Kill()
			cmd.Wait()
			if n := actions(triggered(t, s).rows)[c.action]; n < 2 {
				t.Errorf("%d rows", n)
			}
		})
	}
}

// Activations after what is monitored has ended do nothing, which is said and counted,
// whether its probes stood by or not.
func TestTriggerMonitorsWhatHasEnded(t *testing.T) {
	testenv.NeedUprobes(t)
	path := testenv.CompileCText(t, steered, "-O0", "-pthread")
	for arming, says := range map[string]string{"auto": "what it monitors has ended", "attach": "there is no process"} {
		t.Run(arming, func(t *testing.T) {
			cmd, in, done := startSteered(t, path)
			other, _, _ := startSteered(t, path)
			var h heard
			s := newSession(t, wire.Options{PID: cmd.Process.Pid, Notify: h.add})
			run(t, s, "SET trigger_arming = "+arming)
			run(t, s, fmt.Sprintf("CREATE TRIGGER t ON function_start WHEN pid = %d AND function_name = 'sign' BEGIN MONITOR function_start WHERE pid = %d AND function_name = 'bar' FOR 1ms END",
				cmd.Process.Pid, other.Process.Pid))
			other.Process.Kill()
			other.Wait()
			testenv.Until(t, "it is said", func() bool {
				fmt.Fprintln(in, "go")
				done()
				return strings.Contains(triggerColumn(t, s, "t", "error"), says)
			})
			if told := h.all(); !slices.ContainsFunc(told, func(n string) bool { return strings.Contains(n, says) }) {
				t.Errorf("told %q", told)
			}
			if arming == "auto" && triggerColumn(t, s, "t", "skipped") == "0" {
				t.Error("activations that did nothing are not counted")
			}
		})
	}
}

// startSteered starts the program above; done waits until it has done what a line
// told it to.
func startSteered(t *testing.T, path string, args ...string) (cmd *exec.Cmd, in interface {
	Write([]byte) (int, error)
	Close() error
}, done func()) {
	t.Helper()
	cmd = exec.Command(path, args...)
	w, err := cmd.StdinPipe()
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
	return cmd, w, func() {
		t.Helper()
		b := make([]byte, 16)
		if _, err := out.Read(b); err != nil {
			t.Fatal(err)
		}
	}
}
