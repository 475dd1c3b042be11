package debugregister

import (
	"bytes"
	"os"
	"sync"
)

// Virtual reports whether the processor is that of a virtual machine. Its hypervisor may lose which
// watchpoint an exception was for (DR6). The kernel then takes it for an
// INT1 of the program, and ends that by SIGTRAP (arch/x86/kernel/traps.c, exc_debug_user). On a
// machine of KVM this was one of 17,000 writes.
var Virtual = sync.OnceValue(func() bool {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return false
	}
	for line := range bytes.Lines(text) {
		if name, flags, found := bytes.Cut(line, []byte(":")); found && string(bytes.TrimSpace(name)) == "flags" {
			return bytes.Contains(append(bytes.TrimSpace(flags), ' '), []byte(" hypervisor "))
		}
	}
	return false
})
