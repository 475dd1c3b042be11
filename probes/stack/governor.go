package stack

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// governor keeps the cost of sampling to a share of a CPU, by saying when the next
// snapshot may be taken. What was not used can be made up for later, up to what
// burst takes.
type governor struct {
	share float64 // of a CPU; 0: any
	start time.Time
	spent time.Duration
}

// burst is for how long the share may have been saved up: the first snapshots
// meet code that was not seen before, and cost more.
const burst = 2 * time.Second

// due is when the next snapshot may be taken.
func (g *governor) due() time.Time {
	if g.share <= 0 {
		return g.start
	}
	return g.start.Add(time.Duration(float64(g.spent)/g.share) - burst)
}

// spend notes what a snapshot has cost, which ended at a time. A share that was
// not used for longer than burst is lost.
func (g *governor) spend(cost time.Duration, now time.Time) {
	g.spent += cost
	if g.share <= 0 {
		return
	}
	if idle := now.Sub(g.due()); idle > 2*burst {
		g.start = g.start.Add(idle - 2*burst)
	}
}

// stopwatch measures the CPU time of a thread, the kernel's on its behalf
// included; interrupts of other CPUs are waited for and so counted, too. It is
// used by a goroutine that is bound to its thread.
type stopwatch struct{ begin int64 }

func startWatch() stopwatch {
	runtime.LockOSThread()
	return stopwatch{threadTime()}
}

func (w stopwatch) stop() time.Duration {
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
