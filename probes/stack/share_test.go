package stack

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
)

// shifts is a program with threads that alternate between work and rest, each with
// another share of work.
const shifts = `
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
static volatile unsigned long sink;
static void *turns(void *p) {
	long busy = (long)p * 1000000, rest = 5000000 - busy;
	for (;;) {
		struct timespec a, b, pause = {0, rest};
		clock_gettime(CLOCK_MONOTONIC, &a);
		do { for (int i = 0; i < 200; i++) sink += i; clock_gettime(CLOCK_MONOTONIC, &b); }
		while ((b.tv_sec - a.tv_sec) * 1000000000 + b.tv_nsec - a.tv_nsec < busy);
		nanosleep(&pause, 0);
	}
}
int main(void) {
	pthread_t t;
	for (long i = 0; i < 3; i++) pthread_create(&t, 0, turns, (void *)(i + 1));
	puts("1"); fflush(stdout); pause();
}`

// The share of samples in which threads run equals the share of time for which the
// kernel says that they ran, within 2 of 100, though they keep all CPUs busy: the
// sampler does not wait for a CPU until they rest. The kernel reports separately how
// long they waited for a CPU: samples count this time if the thread was interrupted,
// and not if it had been woken, so on a machine that is busy otherwise the share may
// lie in between.
func TestRunShare(t *testing.T) {
	testenv.NeedUprobes(t)
	r := run(t, testenv.CompileCText(t, shifts, "-O2", "-pthread"))
	r.number(t)
	testenv.Once(t, func() error { // a machine whose CPUs are taken away at times delays the sampler all the same
		if difference := shareDifference(t, r.pid); difference > 0.02 {
			return fmt.Errorf("they differ by %.3f", difference)
		}
		return nil
	})
}

// shareDifference returns the difference of the shares, over all threads but the
// first.
func shareDifference(t *testing.T, pid int) float64 {
	t.Helper()
	spec := specification(plan.Target{PIDs: []int{pid}}, 2*time.Millisecond)
	s, err := provider.Prepare(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	got := newRecord()
	ranBefore, waitedBefore := busyTime(t, pid)
	begin := time.Now()
	if err := s.Start(context.Background(), got, probes.Options{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) // over which shares are compared
	s.Stop()
	<-got.ended
	ranAfter, waitedAfter := busyTime(t, pid)
	wall := 3 * float64(time.Since(begin))
	low := float64(ranAfter-ranBefore) / wall
	high := low + float64(waitedAfter-waitedBefore)/wall
	ran, all := 0, 0
	for _, row := range got.rows {
		if row[colTID].I != int64(pid) {
			all++
			if row[colState].S == "RUN" {
				ran++
			}
		}
	}
	seen := float64(ran) / float64(max(all, 1))
	t.Logf("%.3f of %d samples run, by schedstat %.3f, or %.3f with waiting for a CPU", seen, all, low, high)
	return max(low-seen, seen-high)
}

// busyTime returns how long the threads of a process ran, and waited for a CPU.
func busyTime(t *testing.T, pid int) (ran, waited int64) {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		var r, w int64
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, task.Name()))
		fmt.Sscan(string(b), &r, &w)
		ran, waited = ran+r, waited+w
	}
	return ran, waited
}
