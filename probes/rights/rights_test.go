package rights

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
)

func TestMissing(t *testing.T) {
	const bpf, perf, trace, admin Set = 1 << unix.CAP_BPF, 1 << unix.CAP_PERFMON, 1 << unix.CAP_SYS_PTRACE, 1 << unix.CAP_SYS_ADMIN
	for _, c := range []struct {
		needs     Needs
		effective Set
		want      string
	}{
		{Needs{}, 0, "CAP_BPF and CAP_PERFMON"},
		{Needs{}, bpf, "CAP_PERFMON"},
		{Needs{}, perf | 1<<unix.CAP_NET_ADMIN, "CAP_BPF"},
		{Needs{}, bpf | perf, ""},
		{Needs{}, admin, ""},
		{Needs{Ptrace: true}, 0, "CAP_BPF and CAP_PERFMON and CAP_SYS_PTRACE"},
		{Needs{Ptrace: true}, admin, "CAP_SYS_PTRACE"},
		{Needs{Ptrace: true}, admin | trace, ""},
		{Needs{Ptrace: true}, bpf | perf | trace, ""},
	} {
		if got := strings.Join(c.needs.missing(c.effective), " and "); got != c.want {
			t.Errorf("%+v %#x: %q, want %q", c.needs, c.effective, got, c.want)
		}
	}
}

// What the kernel refuses has the form of a missing right: the stream, what it needs, and a
// hint of what needs less.
func TestRefused(t *testing.T) {
	n := Needs{Since: "5.15"}
	for _, c := range []struct {
		err, noTypes error
		msg          string
		hint         string
	}{
		{fmt.Errorf("map x: map create: %w (MEMLOCK may be too low)", unix.EPERM), nil,
			"process_exec needs programs in the kernel, which refuses to load them: operation not permitted", "run as root"},
		{fmt.Errorf("program y: %w", ebpf.ErrNotSupported), os.ErrNotExist,
			"process_exec needs the kernel's types (BTF), which this kernel does not have: there is no /sys/kernel/btf/vmlinux", "Linux 5.15 or newer, built with CONFIG_DEBUG_INFO_BTF"},
		{fmt.Errorf("program y: %w", ebpf.ErrNotSupported), nil,
			"process_exec needs Linux 5.15 or newer: this kernel cannot load its programs: program y: not supported", "streams of /proc"},
	} {
		var got *plan.Error
		if err := n.refused("process_exec", c.err, c.noTypes); !errors.As(err, &got) {
			t.Errorf("%v: %T", c.err, err)
		} else if got.Msg != c.msg || !strings.HasPrefix(got.Hint, c.hint) || !strings.Contains(got.Hint, "streams of /proc (process_usage, cpu_usage) need no rights") {
			t.Errorf("%v:\n%s\nhint: %s", c.err, got.Msg, got.Hint)
		}
	}
	full := errors.New("full")
	if err := n.refused("process_exec", full, nil); !errors.Is(err, full) {
		t.Errorf("another error: %v", err)
	}
}
