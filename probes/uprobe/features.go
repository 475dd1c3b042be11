package uprobe

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"endoscope/planner/plan"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// haveSessions: a program for entry and return in one (Linux 6.13).
var haveSessions = sync.OnceValue(func() bool { return linkable(attachSession) })

// haveMulti: many probes in one link (Linux 6.6).
var haveMulti = sync.OnceValue(func() bool { return linkable(attachMulti) })

// linkable asks the kernel for an impossible link of that type, on a
// directory: a kernel that knows the type says EBADF, others EINVAL before.
func linkable(attachType uint32) bool {
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type:         ebpf.Kprobe,
		AttachType:   ebpf.AttachType(attachType),
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "GPL",
	})
	if err != nil {
		return false
	}
	defer prog.Close()
	dir, err := os.Open("/")
	if err != nil {
		return false
	}
	defer dir.Close()
	l, err := attach(prog, dir, attachType, 0, 0, []uint64{0}, []uint64{0})
	l.close()
	return errors.Is(err, unix.EBADF)
}

// linkFiltersProcess: a link's pid means the process. Before Linux 6.10 it
// means one thread of it, and the program has to filter.
var linkFiltersProcess = sync.OnceValue(func() bool { return kernelAtLeast(6, 10) })

func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var x, y int
	if n, _ := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &x, &y); n < 2 {
		return false
	}
	return x > major || x == major && y >= minor
}

// checkRights refuses where the kernel would, in words that help more than
// its EPERM.
func checkRights(spec *plan.Acquire) error {
	var hdr = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&hdr, &caps[0]); err != nil {
		return nil // the kernel will tell
	}
	if missing := missingRights(uint64(caps[1].Effective)<<32 | uint64(caps[0].Effective)); missing != "" {
		return plan.Errorf(spec.Start, spec.Stop, "%s needs %s, which this process does not have", spec.Stream, missing).
			WithHint("run as root; streams of /proc (process_usage, cpu_usage) need no rights")
	}
	return nil
}

// missingRights names what a set of capabilities lacks for attaching uprobes.
func missingRights(effective uint64) string {
	has := func(c uint) bool { return effective&(1<<c) != 0 || effective&(1<<unix.CAP_SYS_ADMIN) != 0 }
	var missing []string
	if !has(unix.CAP_BPF) {
		missing = append(missing, "CAP_BPF")
	}
	if !has(unix.CAP_PERFMON) {
		missing = append(missing, "CAP_PERFMON")
	}
	return strings.Join(missing, " and ")
}
