package rights

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/testenv"
)

func TestRemedy(t *testing.T) {
	for _, c := range []struct {
		p           Process
		has, hasNot string
	}{
		{Process{Bounding: ^Set(0)}, "setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep /", "container"},
		{Process{Bounding: ^Set(0), NoNewPrivs: true}, "run as root, or ask the endoscoped of root with --connect", "setcap"},
		{Process{Bounding: 1 << unix.CAP_PERFMON}, "no process here can have CAP_BPF, CAP_SYS_PTRACE: add it to the container", "setcap"},
	} {
		if got := c.p.Remedy(); !strings.Contains(got, c.has) || strings.Contains(got, c.hasNot) {
			t.Errorf("%+v: %s", c.p, got)
		}
	}
}

// The sets of a process are those that setpriv(1) leaves it.
func TestOwn(t *testing.T) {
	if os.Getenv("RESTRICTED") != "" {
		p, err := Own()
		if err != nil || p.Bounding.Has(unix.CAP_BPF) || !p.Bounding.Has(unix.CAP_PERFMON) || p.Effective&Used != 1<<unix.CAP_PERFMON || !p.NoNewPrivs {
			t.Errorf("%+v, %v", p, err)
		}
		return
	}
	testenv.NeedRoot(t)
	own, err := Own()
	if err != nil || own.Effective&Used != Used {
		t.Errorf("%+v, %v", own, err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(testenv.NeedProgram(t, "setpriv"), "--no-new-privs", "--bounding-set=-bpf,-sys_ptrace", "--inh-caps=-all", exe, "-test.run=^TestOwn$")
	cmd.Env = append(os.Environ(), "RESTRICTED=yes")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
