package placement

import (
	"math"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/clock"
)

// The stretch follows the waits of threads that are always runnable or, while
// there are none, the number of runnable threads, and is at most the stretch of
// all threads.
func TestStretchFollowsRunnableThreads(t *testing.T) {
	const ms = time.Millisecond
	about := func(got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("the stretch is %v, want %v", got, want)
		}
	}
	light := func(ran, delayed time.Duration) runTimes {
		return runTimes{ran, delayed, int64(ran / (100 * time.Microsecond))}
	}
	var s slowdown
	about(s.at(6, 2), 3) // nothing is known yet: the fair share
	about(s.at(1, 2), 1)
	some := runTimes{ran: 5 * ms, delayed: 900 * ms, times: 5}
	s.learn(some, runTimes{}, time.Second, 5)
	about(s.at(6, 2), 3) // a few long waits are not significant
	all := runTimes{ran: 200 * ms, delayed: 800 * ms, times: 60}
	s.learn(all, all, time.Second, 5) // all on our one processor
	about(s.at(5, 2), 5)
	about(s.at(2.5, 2), 2.5) // half of them have exited
	for range 2 {            // nothing is computed here, and who runs waits for slices of others
		s.learn(runTimes{}, light(20*ms, 680*ms), time.Second, 5)
	}
	about(s.at(5, 2), 5)
	for range 2 { // the others have gone, whoever else runs elsewhere
		s.learn(runTimes{}, light(100*ms, 20*ms), time.Second, 5)
	}
	about(s.at(5, 2), 1.2)
	s.learn(runTimes{}, runTimes{}, time.Second, 0)
	about(s.at(5, 2), 1.2)

	var pinned slowdown // on one of many processors
	for range 3 {
		pinned.learn(runTimes{ran: 900 * ms}, runTimes{ran: 900 * ms}, time.Second, 33)
	}
	about(pinned.at(33, 1), 1)
}

// Threads that sleep between short runs wait differently from those that
// compute.
func TestBusyThreads(t *testing.T) {
	for w, want := range map[runTimes]bool{
		{ran: 30 * time.Millisecond, delayed: 800 * time.Millisecond, times: 600}: false,
		{ran: 250 * time.Millisecond, delayed: 750 * time.Millisecond, times: 80}: true,
		{ran: time.Second}: true, // it is still running
	} {
		if w.busy() != want {
			t.Errorf("%v is busy: %t", w, !want)
		}
	}
}

// The kernel's figures for threads are parsed as formatted.
func TestThreadsThatWaited(t *testing.T) {
	w, ok := parseSchedstat([]byte("1324678 1977215 2\n"))
	if !ok || w != (runTimes{1324678, 1977215, 2}) {
		t.Errorf("read as %v, %t", w, ok)
	}
	for _, text := range []string{"", "17", "17 4", "x y 2", "17 y 2"} {
		if _, ok := parseSchedstat([]byte(text)); ok {
			t.Errorf("%q is read", text)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var s slowdown
	s.since()
	tid := strconv.Itoa(unix.Gettid())
	before := s.threads[tid]
	for began := clock.ThreadTime(); clock.ThreadTime()-began < 40*time.Millisecond; {
	}
	s.since()
	if ran := s.threads[tid].ran - before.ran; ran < 20*time.Millisecond { // the kernel updates the figures at ticks
		t.Errorf("a thread that ran for 40 ms ran for %v", ran)
	}
}
