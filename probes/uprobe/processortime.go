package uprobe

import (
	"time"

	"golang.org/x/sys/unix"
)

// processorTime implements probes.ProcessorTime. It asks the processes' own clocks, of which
// each takes a system call and no file.
func (s *source) processorTime() (used time.Duration, known bool) {
	for _, p := range s.resolution.running {
		var t unix.Timespec
		if unix.ClockGettime(processClock(p.PID), &t) != nil {
			return 0, false // it has ended
		}
		used += time.Duration(t.Nano())
	}
	return used, len(s.resolution.running) > 0
}

// processClock is the clock of the processor time that a process has used
// (include/linux/posix-timers.h: MAKE_PROCESS_CPUCLOCK).
func processClock(pid int) int32 {
	const cpuClockSched = 2
	return int32(^pid)<<3 | cpuClockSched
}
