package pacing

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Governor limits the cost of sampling to a share of a CPU by deciding when the next
// snapshot may be taken. An unused share can be used later, up to burst.
type Governor struct {
	Share float64 // of a CPU; 0: unlimited
	Start time.Time
	spent time.Duration
	once  time.Duration // of what is done once, not counted in spent
}

// burst is the time for which an unused share is saved: the first snapshots meet new
// code, and cost more.
const burst = 2 * time.Second

// Earliest returns the earliest time of the next snapshot.
func (g *Governor) Earliest() time.Time {
	if g.Share <= 0 {
		return g.Start
	}
	return g.Start.Add(time.Duration(float64(g.spent)/g.Share) - burst)
}

// MaxOnce is the CPU time, beside the share, for what is done once for each file and each
// instruction. Otherwise a program that was just started would not be sampled for as many
// seconds as reading its symbols and debug information takes hundredths of one.
const MaxOnce = 2 * time.Second

// AddCost records the cost of a snapshot that ended at now; once is the part of it that
// no later snapshot has. A share that was unused for longer than burst is lost.
func (g *Governor) AddCost(cost, once time.Duration, now time.Time) {
	once = min(once, MaxOnce-g.once)
	g.once += once
	g.spent += cost - once
	if g.Share <= 0 {
		return
	}
	if idle := now.Sub(g.Earliest()); idle > 2*burst {
		g.Start = g.Start.Add(idle - 2*burst)
	}
}

// stopwatch measures the CPU time of a thread, including the kernel's on its behalf.
// Interrupts on other CPUs are waited for, and so counted, too. The goroutine that
// uses it must be locked to its thread.
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

// threadTime returns the CPU time of this thread, in ns.
func threadTime() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return t.Nano()
}
