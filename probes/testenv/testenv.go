package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"endoscope/probes/debugregister"
)

// Skip skips a test that cannot run here, for the given reason; with
// ENDOSCOPE_REQUIRE=all it fails the test.
func Skip(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("ENDOSCOPE_REQUIRE") == "all" {
		t.Fatalf("ENDOSCOPE_REQUIRE=all, but: "+format, args...)
	}
	t.Skipf(format, args...)
}

// NeedRoot skips unless the test runs as root (eBPF, other users' processes).
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
	// In a container or under setpriv root may lack them.
	if !hasCapability(unix.CAP_SYS_ADMIN) {
		Skip(t, "needs root's capabilities")
	}
}

// hasCapability reports whether this process may use a capability.
func hasCapability(number int) bool {
	var data [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &data[0]); err != nil {
		return false
	}
	return data[number/32].Effective&(1<<(number%32)) != 0
}

// NeedUprobes skips unless the kernel has uprobes and BTF and we may use them.
func NeedUprobes(t testing.TB) {
	t.Helper()
	NeedRoot(t)
	for _, p := range []string{"/sys/kernel/btf/vmlinux", "/sys/bus/event_source/devices/uprobe"} {
		if _, err := os.Stat(p); err != nil {
			Skip(t, "needs a kernel with uprobes and BTF: %s is missing", p)
		}
	}
}

// NeedWatchpoints skips where the processor's watchpoints never fire, also with ENDOSCOPE_REQUIRE=all:
// nothing that could be installed changes a virtual machine.
func NeedWatchpoints(t testing.TB) {
	t.Helper()
	NeedUprobes(t)
	if !debugregister.Fire() {
		t.Skip("hardware watchpoints do not fire on this machine")
	}
}

// NeedProgram returns the path of an installed program, including those outside
// PATH (PostgreSQL's).
func NeedProgram(t testing.TB, name string) string {
	t.Helper()
	if p, err := exec.LookPath(name); err == nil {
		return p
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin/" + name, "/usr/sbin/" + name} {
		if ps, _ := filepath.Glob(pattern); len(ps) > 0 {
			return ps[len(ps)-1]
		}
	}
	Skip(t, "needs %s installed", name)
	return ""
}

// Output runs a tool and returns its output.
func Output(t testing.TB, tool string, args ...string) string {
	t.Helper()
	NeedProgram(t, tool)
	out, err := exec.Command(tool, args...).Output()
	if err != nil {
		t.Fatalf("%s %s: %v", tool, strings.Join(args, " "), err)
	}
	return string(out)
}

// Few returns the first n elements of list in short mode, else all.
func Few[T any](n int, list []T) []T {
	if testing.Short() {
		return list[:min(n, len(list))]
	}
	return list
}

// Times returns n, and a tenth of it in short mode: of repetitions with other random values.
func Times(n int) int {
	if testing.Short() {
		return max(n/10, 1)
	}
	return n
}

// Long skips a test that takes many seconds in short mode.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: it is left out by -short")
	}
}
