package enctest

import (
	"syscall"
	"testing"
	"time"
)

// CpuTime is how much processor time the process has used.
func CpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ReportRate reports how many symbols a loop took a second, n each time: by the
// clock, and by the processor time since began, which is the same however many
// others compute on the machine.
func ReportRate(b *testing.B, n int, began time.Duration) {
	total := float64(n) * float64(b.N) / 1e6
	b.ReportMetric(total/b.Elapsed().Seconds(), "Msymbols/s")
	b.ReportMetric(total/(CpuTime()-began).Seconds(), "Msymbols/cpu-s")
}
