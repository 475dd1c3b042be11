package encoders

import (
	"syscall"
	"testing"
	"time"
)

// cpuTime is how much processor time the process has used.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportRate reports how many symbols a loop took a second, n each time: by the
// clock, and by the processor time since began, which is the same however many
// others compute on the machine.
func reportRate(b *testing.B, n int, began time.Duration) {
	total := float64(n) * float64(b.N) / 1e6
	b.ReportMetric(total/b.Elapsed().Seconds(), "Msymbols/s")
	b.ReportMetric(total/(cpuTime()-began).Seconds(), "Msymbols/cpu-s")
}
