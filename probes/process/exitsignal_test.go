package process

import (
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

// The signal that has ended a process is known before its parent has collected it, and afterwards
// if the kernel keeps it.
func TestExitSignal(t *testing.T) {
	for _, of := range []struct {
		script string
		want   unix.Signal
	}{{"read x; kill -TRAP $$", unix.SIGTRAP}, {"read x; exit 5", 0}} {
		c := exec.Command("sh", "-c", of.script)
		in, err := c.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		pid := c.Process.Pid
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if got := ExitSignal(fd, pid); got != 0 {
			t.Errorf("%s: it runs, and %v has ended it", of.script, got)
		}
		in.Close()
		testenv.Until(t, of.script+" has ended", func() bool { _, runs := Lookup(pid); return !runs })
		if got := ExitSignal(fd, pid); got != of.want {
			t.Errorf("%s: %v before it is collected, want %v", of.script, got, of.want)
		}
		_ = c.Wait()
		if _, known := collected(fd); !known {
			testenv.Skip(t, "needs Linux 6.15")
		}
		if got := ExitSignal(fd, pid); got != of.want {
			t.Errorf("%s: %v after it was collected, want %v", of.script, got, of.want)
		}
	}
}
