package bpf

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
)

func TestLoadErrorsSayWhatIsMissing(t *testing.T) {
	for _, c := range []struct {
		err       error
		msg, hint string
	}{
		{fmt.Errorf("map create: %w", unix.EPERM), "the kernel refuses to load the programs that sample threads: map create: operation not permitted", "run as root, or with CAP_BPF and CAP_PERFMON"},
		{ebpf.ErrNotSupported, "this kernel cannot sample threads: not supported", "Linux 6.1 with BTF is required"},
	} {
		e, ok := errors.AsType[*plan.Error](LoadError(c.err, "sample threads", "6.1"))
		if !ok || e.Start != -1 || e.Msg != c.msg || e.Hint != c.hint {
			t.Errorf("%v: %+v", c.err, e)
		}
	}
	err := LoadError(unix.ENOMEM, "sample threads", "6.1")
	if !errors.Is(err, unix.ENOMEM) || err.Error() != "loading the programs that sample threads: cannot allocate memory" {
		t.Error(err)
	}
}
