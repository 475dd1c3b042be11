package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"endoscope/probes/testenv"
	"endoscope/server/wire"
)

// flipping calls foo(1) and, 60 ms later, foo(0), ever again, and bar all the
// time.
const flipping = `
#include <time.h>
volatile long sink;
__attribute__((noinline, noclone)) void foo(long on) { sink += on; }
__attribute__((noinline, noclone)) void bar(long n) { sink += n; }
int main(void) {
	struct timespec pause = {0, 50000};
	for (long n = 0;; n++) {
		if (n % 600 == 0) foo(n / 600 % 2);
		bar(n);
		nanosleep(&pause, 0);
	}
}
`

// switched calls bar(0), bar(1) ... all the time; for each line that it gets it
// calls foo with the line's number, if there is one, and says how far bar is.
const switched = `
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
volatile long sink;
__attribute__((noinline, noclone)) void foo(long on) { sink += on; }
__attribute__((noinline, noclone)) void bar(long n) { sink += n; }
int main(void) {
	struct timespec pause = {0, 50000};
	struct pollfd in = {0, POLLIN};
	char line[16];
	setbuf(stdin, 0);
	for (long n = 0;; n++) {
		if (poll(&in, 1, 0) > 0) {
			if (!fgets(line, sizeof line, stdin)) return 0;
			if (line[0] != '\n') foo(atol(line));
			printf("%ld\n", n);
			fflush(stdout);
		}
		bar(n);
		nanosleep(&pause, 0);
	}
}
`

// What a tuple turns on is armed, and what the next one fails is undone, over and
// over, in either way: no call is seen from before the tuple, and none once the
// trigger waits again.
func TestTriggerArms(t *testing.T) {
	testenv.NeedUprobes(t)
	program := testenv.CompileCText(t, switched, "-O0")
	for _, arming := range []string{"gate", "attach"} {
		t.Run(arming, func(t *testing.T) {
			cmd := exec.Command(program)
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
			answers := bufio.NewScanner(out)
			tell := func(line string) (n int64) { // of the first call of bar after it
				t.Helper()
				if _, err := fmt.Fprintln(in, line); err != nil {
					t.Fatal(err)
				}
				answers.Scan()
				n, err := strconv.ParseInt(answers.Text(), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				return n
			}

			s := newSession(t, wire.Options{PID: cmd.Process.Pid})
			run(t, s, "SET trigger_arming = "+arming)
			run(t, s, "CREATE TRIGGER flip ON function_start WHEN function_name = 'foo' AND arg0 = 1 BEGIN NOTIFY 'on'; MONITOR function_start WHERE function_name = 'bar' END")
			const rounds = 3
			type span struct{ on, off, again int64 } // calls of bar
			var spans []span
			for round := range rounds {
				rows := func() int64 { return number(t, run(t, s, "SELECT rows FROM sys.triggers"), 0, 0) }
				before := rows()
				on := tell("1")
				testenv.Until(t, "calls of bar", func() bool {
					return triggerColumn(t, s, "flip", "activations") == fmt.Sprint(round+1) && rows() >= before+1+10
				})
				if round == 0 {
					if attached := attachedBy(t, s); !slices.Equal(attached, []string{"bar", "foo"}) {
						t.Errorf("attached is %v", attached)
					}
				}
				tell("0")
				testenv.Until(t, "the trigger waits again", func() bool { return triggerColumn(t, s, "flip", "state") == "waiting" })
				off := tell("")
				again := off
				testenv.Until(t, "more calls of bar", func() bool { again = tell(""); return again > off+100 })
				spans = append(spans, span{on, off, again})
			}
			if got := refusal(t, s, "CREATE TRIGGER wrong ON function_start WHEN function_name = 'foo' BEGIN MONITOR function_start WHERE function_name = 'nosuch' END"); !strings.Contains(got, "no function named nosuch") {
				t.Error(got)
			}
			run(t, s, "DROP TRIGGER flip")
			if attached := attachedBy(t, s); len(attached) > 0 {
				t.Errorf("still attached: %v", attached)
			}
			a := triggered(t, s)
			complete(t, a)
			seen := map[string]int{}
			for _, r := range a.rows {
				if r[3] == "NOTIFY 'on'" {
					continue
				}
				seen[r[2]]++
				var call struct{ Arg0 int64 }
				if err := json.Unmarshal([]byte(r[4]), &call); err != nil {
					t.Fatal(err)
				}
				k, err := strconv.Atoi(r[2])
				if err != nil || k < 1 || k > rounds {
					t.Fatalf("activation %s", r[2])
				}
				if at := spans[k-1]; call.Arg0 < at.on || call.Arg0 >= at.off {
					t.Errorf("activation %d has bar(%d), want from %d to %d", k, call.Arg0, at.on, at.off)
				}
			}
			for k := range rounds {
				if n := seen[fmt.Sprint(k+1)]; n < 10 {
					t.Errorf("activation %d has %d calls", k+1, n)
				}
			}
		})
	}
}

// What is behind a gate goes on for as long as FOR says, until STOP, and with ONCE
// for ever, that is to the end of the target.
func TestTriggerGate(t *testing.T) {
	testenv.NeedUprobes(t)
	target := startFlipping(t)
	s := newSession(t, wire.Options{PID: target.Process.Pid})
	run(t, s, "SET trigger_arming = gate")
	run(t, s, "CREATE ONCE TRIGGER brief ON function_start WHEN function_name = 'foo' AND arg0 = 1 BEGIN MONITOR function_start WHERE function_name = 'bar' FOR 20ms END")
	run(t, s, "CREATE ONCE TRIGGER stopped ON function_start WHEN function_name = 'foo' AND arg0 = 1 BEGIN MONITOR function_end WHERE function_name = 'bar' END")
	run(t, s, "CREATE TRIGGER stops ON function_start WHEN function_name = 'foo' AND arg0 = 0 BEGIN STOP function_end END")
	run(t, s, "CREATE ONCE TRIGGER stays ON function_start WHEN function_name = 'foo' AND arg0 = 1 BEGIN MONITOR function_duration WHERE function_name = 'bar' END")
	seen := map[string]map[string]bool{"brief": {}, "stopped": {}, "stays": {}}
	all := func() bool { return len(seen["brief"]) > 1 && len(seen["stopped"]) > 1 && len(seen["stays"]) > 0 }
	began := time.Now()
	for d := time.Duration(0); d < time.Second || !all() && d < 2*time.Minute; d = time.Since(began) {
		time.Sleep(3 * time.Millisecond) // between one look and the next
		for _, r := range run(t, s, "SELECT trigger, state FROM sys.triggers WHERE trigger <> 'stops' AND activations > 1").rows {
			seen[r[0]][r[1]] = true
		}
	}
	if !seen["brief"]["waiting"] || !seen["brief"]["acting"] || !seen["stopped"]["waiting"] || !seen["stopped"]["acting"] {
		t.Errorf("what was seen of each is %v", seen)
	}
	if len(seen["stays"]) != 1 || !seen["stays"]["acting"] {
		t.Errorf("what stays on was seen %v", seen["stays"])
	}
	target.Process.Kill()
	target.Wait()
	a := triggered(t, s) // all have ended
	if n := actions(a.rows); len(n) != 4 || n["STOP function_end"] == 0 {
		t.Errorf("rows by action: %v", n)
	}
}

// startFlipping starts the program above, whose functions begin with a push.
func startFlipping(t testing.TB) *exec.Cmd {
	cmd := exec.Command(testenv.CompileCText(t, flipping, "-O0"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// flips runs a trigger over the program above until it was activated n times,
// and tells how long after the tuple of each the first event came, and after how
// many of them there was a time without events before the next.
func flips(t testing.TB, arming string, n int64, action string) (latencies []time.Duration, armed time.Duration, undone int) {
	s := newSession(t, wire.Options{PID: startFlipping(t).Process.Pid})
	run(t, s, "SET trigger_arming = "+arming)
	run(t, s, "CREATE TRIGGER flip ON function_start WHEN function_name = 'foo' AND arg0 = 1 BEGIN NOTIFY 'on'; "+action+" END")
	testenv.Until(t, "the trigger is activated often", func() bool { return number(t, run(t, s, "SELECT activations FROM sys.triggers"), 0, 0) > n })
	ns, err := strconv.ParseInt(triggerColumn(t, s, "flip", "latency"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	armed = time.Duration(ns)
	t.Logf("from a tuple to armed: at most %v", armed)
	if attached := run(t, s, "SELECT DISTINCT function_name FROM sys.probes WHERE provider = 'uprobe' ORDER BY 1").rows; len(attached) == 0 || attached[len(attached)-1][0] != "foo" {
		t.Errorf("attached is %v", attached)
	}
	if got := refusal(t, s, "CREATE TRIGGER wrong ON function_start WHEN function_name = 'foo' BEGIN MONITOR function_start WHERE function_name = 'nosuch' END"); !strings.Contains(got, "no function named nosuch") {
		t.Error(got)
	}
	run(t, s, "DROP TRIGGER flip")
	if attached := run(t, s, "SELECT * FROM sys.probes WHERE provider = 'uprobe'").rows; len(attached) > 0 {
		t.Errorf("still attached: %v", attached)
	}
	a := triggered(t, s)
	complete(t, a)
	at, first, last := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, r := range a.rows {
		ns, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		where := first
		if r[3] == "NOTIFY 'on'" {
			where = at
		} else {
			last[r[2]] = ns
		}
		if _, ok := where[r[2]]; !ok {
			where[r[2]] = ns
		}
	}
	for i := int64(1); i <= n; i++ {
		k := strconv.FormatInt(i, 10)
		if at[k] == 0 || first[k] == 0 {
			t.Fatalf("activation %d: tuple at %d, first event at %d", i, at[k], first[k])
		}
		latencies = append(latencies, time.Duration(first[k]-at[k]))
		if next := at[strconv.FormatInt(i+1, 10)]; next > last[k]+int64(5*time.Millisecond) {
			undone++
		}
	}
	return latencies, armed, undone
}

// armingActions are what takes the kernel milliseconds to attach.
var armingActions = []struct{ name, action string }{
	{"MONITOR starts", "MONITOR function_start WHERE function_name = 'bar'"},
	{"MONITOR durations", "MONITOR function_duration WHERE function_name = 'bar'"},
	{"MONITOR sequence", "MONITOR function_call WHERE function_name = 'bar'"},
	{"SELECT", "SELECT timestamp, arg0 FROM function_start WHERE function_name = 'bar' LIMIT 1"},
}

// BenchmarkTriggerArms tells the time from a tuple to the first event of what it
// turned on, of 40 activations: with probes that stand by, and with probes that are
// attached then. bar is called every 0.1 ms. armed-max is
// the longest time until the engine had armed it, without the target's own pause.
//
//	go test -run '^$' -bench TriggerArms -benchtime 1x ./server
func BenchmarkTriggerArms(b *testing.B) {
	testenv.NeedUprobes(b)
	for _, arming := range []string{"auto", "gate", "attach"} {
		for _, a := range armingActions {
			b.Run(arming+"/"+a.name, func(b *testing.B) {
				for range b.N {
					latencies, armed, _ := flips(b, arming, 40, a.action)
					slices.Sort(latencies)
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(latencies[len(latencies)/2].Seconds()*1000, "ms/median")
					b.ReportMetric(latencies[len(latencies)-1].Seconds()*1000, "ms/max")
					b.ReportMetric(armed.Seconds()*1000, "ms/armed-max")
				}
			})
		}
	}
}
