package server_test

import (
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

// What a tuple turns on is armed at once, and what the next one fails is undone,
// over and over.
func TestTriggerArms(t *testing.T) {
	testenv.NeedUprobes(t)
	latencies, undone := flips(t, 6, "MONITOR function_start WHERE function_name = 'bar'")
	t.Logf("from a tuple to the first event of what it turned on: %v", latencies)
	for i, d := range latencies {
		if d < 0 || d > time.Second {
			t.Errorf("activation %d saw its first event after %v", i+1, d)
		}
	}
	if undone == 0 {
		t.Error("nothing was undone")
	}
}

// flips runs a trigger over the program above until it was activated n times,
// and tells how long after the tuple of each the first event came, and how often
// it was seen that nothing was monitored.
func flips(t testing.TB, n int64, action string) (latencies []time.Duration, undone int) {
	cmd := exec.Command(testenv.CompileCText(t, flipping, "-O1"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	s := newSession(t, wire.Options{PID: cmd.Process.Pid})
	run(t, s, "CREATE TRIGGER flip ON function_start WHEN function_name = 'foo' AND arg0 = 1 BEGIN NOTIFY 'on'; "+action+" END")
	for deadline := time.Now().Add(30 * time.Second); number(t, run(t, s, "SELECT activations FROM sys.triggers"), 0, 0) <= n; {
		if time.Now().After(deadline) {
			t.Fatal("it was not activated")
		}
		if triggerColumn(t, s, "flip", "state") == "waiting" {
			undone++
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("from a tuple to armed: at most %sns", triggerColumn(t, s, "flip", "latency"))
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
	at, first := map[string]int64{}, map[string]int64{}
	for _, r := range a.rows {
		ns, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		where := first
		if r[3] == "NOTIFY 'on'" {
			where = at
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
	}
	return latencies, undone
}

// BenchmarkTriggerArms tells the time from a tuple to the first event of what it
// turned on, of functions' starts and of their durations.
func BenchmarkTriggerArms(b *testing.B) {
	testenv.NeedUprobes(b)
	for name, action := range map[string]string{
		"start":    "MONITOR function_start WHERE function_name = 'bar'",
		"duration": "MONITOR function_duration WHERE function_name = 'bar'",
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				latencies, _ := flips(b, 40, action)
				slices.Sort(latencies)
				b.ReportMetric(float64(latencies[len(latencies)/2].Nanoseconds())/1e6, "ms/median")
				b.ReportMetric(float64(latencies[len(latencies)-1].Nanoseconds())/1e6, "ms/max")
			}
		})
	}
}
