package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// ThreadTime is the processor time that this thread has used.
func ThreadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // the clock exists
	}
	return time.Duration(t.Nano())
}

// ProcessTime is what this process has used of processors, ns.
func ProcessTime() int64 {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return ts.Nano()
}
