package process

import (
	"os"
	"strings"

	"endoscope/planner/plan"
)

// Numbered reports whether pids in this process are those that eBPF programs
// see: false in a container with its own PID namespace.
func Numbered() bool { return initial("pid:[4026531836]") }

// InitialUsers reports whether capabilities of this process hold on the whole machine: false
// in a container with its own user namespace.
func InitialUsers() bool { return initial("user:[4026531837]") }

// initial reports whether we are in the namespace that the kernel began with, whose name is
// constant: PROC_PID_INIT_INO and the like of include/linux/proc_ns.h.
func initial(name string) bool {
	kind, _, _ := strings.Cut(name, ":")
	own, err := os.Readlink("/proc/self/ns/" + kind)
	return err != nil || own == name
}

// SharesRoot reports whether process pid resolves paths like this process: it
// has the same root and the same mounts.
func SharesRoot(pid int) bool {
	own, err := os.Stat("/proc/self/root/.")
	if err != nil {
		return false
	}
	its, err := os.Stat(path(pid, "root/."))
	if err != nil || !os.SameFile(own, its) {
		return false
	}
	ours, err := os.Readlink("/proc/self/ns/mnt")
	theirs, err2 := os.Readlink(path(pid, "ns/mnt"))
	return err == nil && err2 == nil && ours == theirs
}

// RequireNumbered returns an error unless Numbered.
func RequireNumbered(spec *plan.Acquire) error {
	if Numbered() {
		return nil
	}
	return plan.Errorf(spec.Start, spec.Stop, "%s cannot be acquired from within a PID namespace: the kernel's programs see other numbers of processes", spec.Stream).
		WithHint("run on the host, or in a container that has the host's PID namespace (--pid=host)")
}
