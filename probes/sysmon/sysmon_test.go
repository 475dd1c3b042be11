package sysmon

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// TestRelax: while a goroutine waits in the kernel, the thread taken for the monitor is the one
// that wakes most.
func TestRelax(t *testing.T) {
	testenv.NeedRoot(t)
	wakings := func() (most int, of string) {
		before := switches(t)
		for range 20 {
			time.Sleep(15 * time.Millisecond) // until then the monitor has given up the P
			ts := unix.NsecToTimespec(int64(10 * time.Millisecond))
			_ = unix.Nanosleep(&ts, nil)
		}
		for tid, n := range switches(t) {
			if n -= before[tid]; n > most {
				most, of = n, tid
			}
		}
		return most, of
	}
	tid, err := thread()
	if err != nil {
		t.Fatal(err)
	}
	before, of := 0, ""
	testenv.Once(t, func() error { // without a processor it wakes rarely
		if before, of = wakings(); of != fmt.Sprint(tid) {
			return fmt.Errorf("thread %s wakes most, not %d", of, tid)
		}
		return nil
	})
	if err := relaxed(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/timerslack_ns", tid))
	if err != nil || strings.TrimSpace(string(b)) != fmt.Sprint(int64(slack)) {
		t.Errorf("%q %v", b, err)
	}
	after, _ := wakings()
	t.Logf("%d wakings, then %d", before, after)
}

// switches returns how often each thread has given up its CPU.
func switches(t *testing.T) map[string]int {
	all := map[string]int{}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range threads {
		b, err := os.ReadFile("/proc/self/task/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), "\nvoluntary_ctxt_switches:")
		var n int
		_, _ = fmt.Sscan(rest, &n)
		all[e.Name()] = n
	}
	return all
}
