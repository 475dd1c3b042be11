package process

import (
	"endoscope/planner/plan"
	"os"
)

// hostNamespace is the name of the initial PID namespace: PROC_PID_INIT_INO of
// include/linux/proc_ns.h.
const hostNamespace = "pid:[4026531836]"

// Numbered reports whether pids in this process are those that eBPF programs
// see: false in a container with its own PID namespace.
func Numbered() bool {
	name, err := os.Readlink("/proc/self/ns/pid")
	return err != nil || name == hostNamespace
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
