package process

import (
	"os"
	"testing"
)

func TestContainerOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/docker-12ab.scope\n":                         "/system.slice/docker-12ab.scope",
		"2:cpu:/\n1:memory:/docker/12ab\n0::/\n":                       "/docker/12ab",
		"2:cpu:/short\n1:memory:/docker/12ab\n0::/kubepods/pod1:2/x\n": "/kubepods/pod1:2/x",
		"12:name=systemd:/\n0::/\n":                                    "/",
		"":                                                             "",
		"no line of such a file\n":                                     "",
	} {
		if got := containerOf([]byte(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if Container(os.Getpid()) == "" {
		t.Error("the container of this process is not known")
	}
	if got := Container(1 << 30); got != "" {
		t.Errorf("a process that there is not is in %q", got)
	}
}
