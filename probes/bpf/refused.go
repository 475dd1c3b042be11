package bpf

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
)

// LoadError returns the error for programs that the kernel has not loaded.
// purpose says what they are for ("sample threads"); linux is the first version
// that loads them.
func LoadError(err error, purpose, linux string) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return plan.Errorf(-1, -1, "the kernel refuses to load the programs that %s: %v", purpose, err).
			WithHint("run as root, or with CAP_BPF and CAP_PERFMON")
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound):
		return plan.Errorf(-1, -1, "this kernel cannot %s: %v", purpose, err).WithHint("Linux %s with BTF is required", linux)
	}
	return fmt.Errorf("loading the programs that %s: %w", purpose, err)
}
