package enctest

import (
	"syscall"
	"testing"
	"time"
)

// CpuTime returns the processor time the process has used.
func CpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ReportRate reports the symbols per second of a benchmark loop, n per iteration: by wall
// clock, and by processor time since began, which does not depend on other load.
func ReportRate(b *testing.B, n int, began time.Duration) {
	total := float64(n) * float64(b.N) / 1e6
	b.ReportMetric(total/b.Elapsed().Seconds(), "Msymbols/s")
	b.ReportMetric(total/(CpuTime()-began).Seconds(), "Msymbols/cpu-s")
}
