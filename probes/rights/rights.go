// Package rights says what a stream needs that is acquired by eBPF programs: of this process,
// and of the kernel. What is missing has the same form of error for all such streams, before
// anything is attached.
//
// It must not know what the programs do.
package rights

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// Needs are the needs of a kind of stream.
type Needs struct {
	Ptrace  bool   // CAP_SYS_PTRACE, beside CAP_BPF and CAP_PERFMON
	Since   string // the first version of Linux that has all that the programs use
	Instead string // streams that have none of these needs, for hints
}

// Check returns an error where the kernel would return EPERM. Its text names what is missing.
func (n Needs) Check(spec *plan.Acquire) error {
	if err := process.RequireNumbered(spec); err != nil {
		return err
	}
	own, err := Own()
	if err != nil {
		return nil // the kernel will report it
	}
	if missing := n.missing(own.Effective); len(missing) > 0 {
		return plan.Errorf(spec.Start, spec.Stop, "%s needs %s, which this process does not have", spec.Stream, strings.Join(missing, " and ")).
			WithHint("%s; %s", own.Remedy(), n.instead())
	}
	return nil
}

// missing names the capabilities that a set lacks.
func (n Needs) missing(effective Set) (missing []string) {
	if !effective.Has(unix.CAP_BPF) && !effective.Has(unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_BPF")
	}
	if !effective.Has(unix.CAP_PERFMON) && !effective.Has(unix.CAP_SYS_ADMIN) {
		missing = append(missing, "CAP_PERFMON")
	}
	if n.Ptrace && !effective.Has(unix.CAP_SYS_PTRACE) {
		missing = append(missing, "CAP_SYS_PTRACE")
	}
	return missing
}

// instead says which streams need less.
func (n Needs) instead() string {
	return fmt.Sprintf("streams of /proc (%s) need no rights", cmp.Or(n.Instead, "process_usage, cpu_usage"))
}

// KernelTypes is where a kernel that has BTF shows it.
const KernelTypes = "/sys/kernel/btf/vmlinux"

// Refused returns the error of a stream whose programs the kernel did not load because of err.
// It has no place.
func (n Needs) Refused(stream string, err error) error {
	_, noTypes := os.Stat(KernelTypes)
	return n.refused(stream, err, noTypes)
}

func (n Needs) refused(stream string, err, noTypes error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier):
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return plan.Errorf(-1, -1, "%s needs programs in the kernel, which refuses to load them: %v", stream, cause(err)).
			WithHint("run as root, where neither kernel lockdown nor the seccomp profile of a container forbids it: endoscope doctor shows both; %s", n.instead())
	case noTypes != nil && (errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, btf.ErrNotFound) || errors.Is(err, os.ErrNotExist)):
		return plan.Errorf(-1, -1, "%s needs the kernel's types (BTF), which this kernel does not have: there is no %s", stream, KernelTypes).
			WithHint("Linux %s or newer, built with CONFIG_DEBUG_INFO_BTF; %s", n.Since, n.instead())
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound):
		return plan.Errorf(-1, -1, "%s needs Linux %s or newer: this kernel cannot load its programs: %v", stream, n.Since, err).
			WithHint("%s", n.instead())
	}
	return fmt.Errorf("%s: loading the programs: %w", stream, err)
}

// cause returns the error of the system call, without the loader's remarks.
func cause(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
