package resolve

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"endoscope/probes/uprobe/selection"
)

// Reasons why processes with security hardening cannot have return traps.
const (
	trapFiltered = "a seccomp filter of the process would kill it for the system call by which Linux 6.11 to 6.13 returns from a trap"
	trapShadowed = "the process has a shadow stack, which return traps break before Linux 6.11"
)

// hardened returns why the processes that use a module cannot have return traps on
// this kernel, because of their security hardening; "" if they can.
//
//   - Since Linux 6.11 calls return through a trampoline that makes a system
//     call (uretprobe, arch/x86/kernel/uprobes.c). Before 6.14 a seccomp filter that
//     does not know the call rejects it (kernel/seccomp.c). Containers and services
//     have such filters.
//   - Shadow stacks (CONFIG_X86_USER_SHADOW_STACK, Linux 6.6) were not updated
//     with the replaced return address before 6.11.
//
// Programs that start later cannot be checked.
func (r *resolver) hardened(m *selection.Module) string {
	if r.returnsHarmed == nil {
		return ""
	}
	for _, pl := range m.Mapped {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pl.Process.PID))
		if err != nil {
			continue // it has ended
		}
		if why := r.returnsHarmed(string(status)); why != "" {
			return why
		}
	}
	return ""
}

// newTrapCheck returns a function that tests the status of a process, nil if this
// kernel's traps harm no process.
func newTrapCheck(atLeast func(version string) bool) func(status string) string {
	switch {
	case atLeast("6.14") || !atLeast("6.6"):
		return nil
	case atLeast("6.11"):
		return func(status string) string {
			if s := statusField(status, "Seccomp"); s != "" && s != "0" {
				return trapFiltered
			}
			return ""
		}
	}
	return func(status string) string {
		if slices.Contains(strings.Fields(statusField(status, "x86_Thread_features")), "shstk") {
			return trapShadowed
		}
		return ""
	}
}

// statusField returns the value of a line of /proc/PID/status, "" if it has none.
func statusField(status, name string) string {
	for line := range strings.Lines(status) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
