package process

import (
	"os"
	"os/exec"
	"testing"

	"endoscope/probes/testenv"
)

func TestCgroupOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/docker-12ab.scope\n":                         "/system.slice/docker-12ab.scope",
		"2:cpu:/\n1:memory:/docker/12ab\n0::/\n":                       "/docker/12ab",
		"2:cpu:/short\n1:memory:/docker/12ab\n0::/kubepods/pod1:2/x\n": "/kubepods/pod1:2/x",
		"12:name=systemd:/\n0::/\n":                                    "/",
		"":                                                             "",
		"no line of such a file\n":                                     "",
	} {
		if got := groupIn([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if cgroupOf(os.Getpid()) == "" {
		t.Error("the container of this process is not known")
	}
	if got := cgroupOf(1 << 30); got != "" {
		t.Errorf("a process that there is not is in %q", got)
	}
}

// A zombie process is still in the container that it ran in.
func TestCgroupOfOneThatEnded(t *testing.T) {
	cmd := exec.Command("cat")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	before := cgroupOf(pid)
	in.Close()
	testenv.Until(t, "the process has ended", func() bool {
		_, runs := Lookup(pid)
		return !runs
	})
	if after := cgroupOf(pid); after != "" && after != before {
		t.Errorf("in %q, and in %q when it had ended", before, after)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
