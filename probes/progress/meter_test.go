package progress

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

const spinning = `
#include <pthread.h>
static void *spin(void *p) { for (;;) __asm__ volatile(""); return p; }
int main(void) { pthread_t t; pthread_create(&t, 0, spin, 0); spin(0); }`

// TestMeter compares the progress of two threads with the kernel's clock of their process,
// which lags by a tick for each thread at the most.
func TestMeter(t *testing.T) {
	testenv.NeedUprobes(t)
	pid := testenv.Run(t, exec.Command(testenv.CompileCText(t, spinning, "-O1", "-pthread")))
	m, err := Open([]int{pid, 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	clock := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(clockOf(pid), &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	// Both advance between two readings.
	read := func() (before, progress, after int64) { return clock(), m.Read(), clock() }
	before, at, began := read()
	testenv.Until(t, "it has run for a while", func() bool { return clock()-began > 300e6 })
	const ticks = 2 * 2 * 10e6
	until, progress, after := read()
	if least, most := until-began, after-before; progress-at < least-ticks || progress-at > most+ticks+most/10 {
		t.Errorf("progress is %d ns, the process used %d to %d", progress-at, least, most)
	}
	last := m.Read()
	testenv.Until(t, "each reading advances", func() bool { return m.Read() > last })
	m.Forget(func(int) bool { return false })
	if n := m.Read(); n < last || len(m.threads) != 0 {
		t.Errorf("%d ns of threads that are not read any more, before %d", n, last)
	}
}
