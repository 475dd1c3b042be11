package procfs

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock is CLOCK_BOOTTIME in ns, the clock of process start times.
func bootClock() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail: every kernel has this clock
	return ts.Nano()
}

// steadyClock returns a clock in ns since the epoch that follows the boot
// clock: setting the system's time does not make it jump.
func steadyClock() func() int64 {
	offset := time.Now().UnixNano() - bootClock()
	return func() int64 { return bootClock() + offset }
}
