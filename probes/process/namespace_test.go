package process

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"endoscope/probes/testenv"
)

// TestNumbered runs itself in a PID namespace of its own.
func TestNumbered(t *testing.T) {
	if os.Getenv("IN_NAMESPACE") != "" {
		if Numbered() {
			t.Error("a process in a namespace takes its numbers for the host's")
		}
		return
	}
	testenv.NeedRoot(t)
	if name, _ := os.Readlink("/proc/self/ns/pid"); Numbered() != (name == "pid:[4026531836]") {
		t.Errorf("%q", name)
	}
	// /proc is the host's, where /proc/self does not exist for that namespace:
	// another is mounted, for that process alone.
	cmd := exec.Command("/bin/sh", "-c", `mount --make-rprivate / && mount -t proc proc /proc && exec "$0" -test.run='^TestNumbered$'`, os.Args[0])
	cmd.Env = append(os.Environ(), "IN_NAMESPACE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
