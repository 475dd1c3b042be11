package uprobe

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/catalog"
	"endoscope/probes/testenv"
	"endoscope/probes/uprobe/internal/testplan"
)

// soak returns how long stress tests run: the duration in ENDOSCOPE_SOAK, or short where
// it is not set.
func soak(t *testing.T, short time.Duration) (d time.Duration, long bool) {
	t.Helper()
	text := os.Getenv("ENDOSCOPE_SOAK")
	if text == "" {
		return short, false
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("ENDOSCOPE_SOAK: %v", err)
	}
	return d, true
}

// Goroutines change threads and their stacks move while calls are under way. Each call
// is a row, or was left by a panic or Goexit and is counted; the durations agree with
// the program's measurements.
func TestGoReturns(t *testing.T) {
	testenv.NeedUprobes(t)
	lasts, long := soak(t, time.Second)
	target := testenv.CompileGo(t, "testdata/goexits")
	p := provider(t, Options{RingBytes: 64 << 20})
	r := run(t, target, "200", fmt.Sprint(lasts.Seconds()))
	_, got := start(t, p, testplan.Acquire(catalog.FunctionDuration, r.target(), testplan.Named("main.deep", "main.nap", "main.relay", "main.risky", "main.fails", "main.ends"),
		"timestamp", "start_time", "duration", "function_name", "tid", "arg0", "retval"))
	lines := r.finish(success)
	got.wait(t)
	if len(got.lost) > 0 {
		t.Fatalf("lost %v of %d", got.lost, len(got.rows))
	}
	calls, own := map[string]int{}, map[int64]int64{}
	unfinished := 0
	for _, line := range lines {
		var name string
		var n int
		var id, ns int64
		if _, err := fmt.Sscanf(line, "calls %s %d", &name, &n); err == nil {
			calls[name] = n
		} else if _, err := fmt.Sscanf(line, "unfinished %d", &n); err == nil {
			unfinished = n
		} else if _, err := fmt.Sscanf(line, "nap %d %d", &id, &ns); err == nil {
			own[id] = ns
		} else {
			t.Fatalf("the target says %q", line)
		}
	}
	rows := tally(got.strings("function_name"))
	rows["main.fails"] += int(got.counts["unfinished"])
	for name, n := range rows {
		if name != "main.fails" && name != "main.ends" && n != calls[name] {
			t.Errorf("%s: %d rows, %d calls", name, n, calls[name])
		}
	}
	if both, want := rows["main.fails"]+rows["main.ends"], calls["main.fails"]+calls["main.ends"]; both != want || int(got.counts["unfinished"]) != unfinished {
		t.Errorf("of %d calls that may not return %d are rows or counted; %v, want %d unfinished", want, both, got.counts, unfinished)
	}
	if diff := cmp.Diff(map[string]uint64{"unfinished": uint64(unfinished)}, got.counts); diff != "" {
		t.Error(diff)
	}

	names, args, rets, durations := got.strings("function_name"), got.ints("arg0"), got.ints("retval"), got.ints("duration")
	var beyond []int64 // the program's measurement less ours
	for i, name := range names {
		switch name {
		case "main.relay":
			if rets[i] != args[i] {
				t.Fatalf("relay(%d) = %d", args[i], rets[i])
			}
		case "main.risky":
			if want := args[i]; rets[i] != want && (want%3 != 0 || rets[i] != -1) {
				t.Fatalf("risky(%d) = %d", args[i], rets[i])
			}
		case "main.nap":
			ns, ok := own[args[i]]
			if !ok || durations[i] > ns || durations[i] < int64(time.Millisecond) {
				t.Fatalf("nap(%d) took %d, the program measured %d", args[i], durations[i], ns)
			}
			beyond = append(beyond, ns-durations[i])
		}
	}
	// The program's measurement includes the traps, and occasionally another goroutine
	// or program scheduled at that point.
	slices.Sort(beyond)
	at := func(q float64) time.Duration { return time.Duration(beyond[int(q*float64(len(beyond)-1))]) }
	t.Logf("%d rows; %d naps: the program measured %v more (median), %v (90%%), %v (99%%), %v at most", len(got.rows), len(beyond), at(.5), at(.9), at(.99), at(1))
	if bound := 25 * time.Microsecond; at(.1) > 4*bound || long && at(.9) > bound {
		t.Errorf("the program measures %v more in one of ten calls, %v in nine", at(.1), at(.9))
	}
	if n := len(tally(got.ints("tid"))); n < 2 {
		t.Errorf("all calls began on %d thread", n)
	}
}
