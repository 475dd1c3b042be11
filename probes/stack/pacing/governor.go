package pacing

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Governor keeps the cost of sampling to a share of a CPU, by saying when the next
// snapshot may be taken. What was not used can be made up for later, up to what
// burst takes.
type Governor struct {
	Share float64 // of a CPU; 0: any
	Start time.Time
	spent time.Duration
}

// burst is for how long the share may have been saved up: the first snapshots
// meet code that was not seen before, and cost more.
const burst = 2 * time.Second

// Due is when the next snapshot may be taken.
func (g *Governor) Due() time.Time {
	if g.Share <= 0 {
		return g.Start
	}
	return g.Start.Add(time.Duration(float64(g.spent)/g.Share) - burst)
}

// Spend notes what a snapshot has cost, which ended at a time. A share that was
// not used for longer than burst is lost.
func (g *Governor) Spend(cost time.Duration, now time.Time) {
	g.spent += cost
	if g.Share <= 0 {
		return
	}
	if idle := now.Sub(g.Due()); idle > 2*burst {
		g.Start = g.Start.Add(idle - 2*burst)
	}
}

// stopwatch measures the CPU time of a thread, the kernel's on its behalf
// included; interrupts of other CPUs are waited for and so counted, too. It is
// used by a goroutine that is bound to its thread.
type stopwatch struct{ begin int64 }

func StartWatch() stopwatch {
	runtime.LockOSThread()
	return stopwatch{threadTime()}
}

func (w stopwatch) Stop() time.Duration {
	d := time.Duration(threadTime() - w.begin)
	runtime.UnlockOSThread()
	return d
}

// threadTime is the CPU time of this thread, in ns.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}
