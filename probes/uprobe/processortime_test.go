package uprobe

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"endoscope/probes/process"
	"endoscope/probes/uprobe/resolve"
)

// TestUsedAgreesWithGetrusage: the processor time of the processes agrees with
// getrusage, and is unknown when one has ended.
func TestUsedAgreesWithGetrusage(t *testing.T) {
	s := &source{resolution: &resolve.Resolution{}}
	if _, known := s.processorTime(); known {
		t.Error("no process has used anything")
	}
	s.resolution.Running = []process.Process{{PID: os.Getpid()}}
	rusage := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	least := rusage()
	used, known := s.processorTime()
	if most := rusage(); !known || used < least-time.Millisecond || used > most+time.Millisecond {
		t.Errorf("%v, %v; getrusage says %v to %v", used, known, least, most)
	}

	ended := exec.Command("true")
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	s.resolution.Running = append(s.resolution.Running, process.Process{PID: ended.Process.Pid})
	if used, known := s.processorTime(); known {
		t.Errorf("a process has ended, and all have used %v", used)
	}
}
