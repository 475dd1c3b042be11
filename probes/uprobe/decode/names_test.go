package decode

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"endoscope/probes/testenv"
)

// Names outlive their processes, and are looked up again while these live.
func TestExeNames(t *testing.T) {
	testenv.NeedProgram(t, "sleep")
	now := time.Now()
	x := newExeNames()
	x.now = func() time.Time { return now }
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	want, _ := filepath.EvalSymlinks(testenv.NeedProgram(t, "sleep"))
	// Between fork and exec the child has our executable.
	self, _ := os.Executable()
	for x.Find(cmd.Process.Pid) == self {
		now = now.Add(2 * exeNameLife)
	}
	if got := x.Find(cmd.Process.Pid); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	cmd.Process.Kill()
	cmd.Wait()
	now = now.Add(2 * exeNameLife)
	if got := x.Find(cmd.Process.Pid); got != want {
		t.Errorf("after its end: %q, want %q", got, want)
	}
	if got := x.Find(1 << 22); got != "" {
		t.Errorf("no process has executable %q", got)
	}
}
