// Package clock is the one clock of all events: the kernel's boot clock, which
// runs while the machine sleeps and never jumps, shifted to the Unix epoch by
// an offset that is determined once per process. Setting the machine's time
// neither reorders events nor breaks windows.
//
// It must not know its users.
package clock

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Boot returns CLOCK_BOOTTIME in ns: the clock of bpf_ktime_get_boot_ns, and of
// the start times in /proc.
func Boot() int64 { return read(unix.CLOCK_BOOTTIME) }

// Now returns the time in ns since the epoch, by the boot clock.
func Now() int64 { return Boot() + Offset() }

// Offset returns the offset from Boot to the time since the epoch, in ns.
func Offset() int64 { return offset() }

var offset = sync.OnceValue(func() int64 {
	// Two clocks cannot be read at once: take the attempt with the smallest
	// gap.
	var best, offset int64
	for i := range 5 {
		before := Boot()
		now := read(unix.CLOCK_REALTIME)
		gap := Boot() - before
		if i == 0 || gap < best {
			best, offset = gap, now-(before+gap/2)
		}
	}
	return offset
})

// Thread is the processor time that the calling thread has used, in ns. Two
// readings compare only where the goroutine is locked to its thread.
func Thread() int64 { return read(unix.CLOCK_THREAD_CPUTIME_ID) }

func read(id int32) int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(id, &ts) // every Linux has these clocks
	return ts.Nano()
}
