package attach

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/process"
)

// Feature is something that not every kernel has. It is looked for once, when
// first asked for.
type Feature struct {
	Name  string // completes "this kernel has no ..."
	Since string // the version of Linux that brought it
	Has   func() bool
}

// The features of kernels that decide how probes are attached.
var (
	// A program for entry and return in one.
	FeatureSession = Feature{"uprobe sessions", "6.13", sync.OnceValue(func() bool { return linkable(TypeSession) })}
	// Many probes in one link.
	FeatureMulti = Feature{"links of many uprobes", "6.6", sync.OnceValue(func() bool { return linkable(TypeMulti) })}
	// A perf event's link with a cookie.
	FeaturePerf = Feature{"perf-event links with cookies", "5.15", sync.OnceValue(func() bool {
		_, err := perfUprobes()
		return err == nil && linkable(TypePerf)
	})}
	// A multi link's pid means the process. Before it means one thread of it,
	// and the program has to filter; that cannot be told from outside.
	FeatureProcess = Feature{"uprobe links restricted to a process", "6.10", sync.OnceValue(func() bool { return KernelAtLeast("6.10") })}
	// A program can look up the mapping of a stack (bpf_find_vma).
	FeatureFindVMA = Feature{"bpf_find_vma", "5.17", sync.OnceValue(func() bool {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnFindVma) == nil
	})}
	// A program can allocate an entry of a hash table; see preallocate. It always
	// could, so that only the version tells whether it should.
	FeatureAllocation = Feature{"allocation by programs", "6.1", sync.OnceValue(func() bool { return KernelAtLeast("6.1") })}
	// A program can follow a list of any length.
	FeatureLoop = Feature{"bpf_loop", "5.17", sync.OnceValue(func() bool {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop) == nil
	})}
	// A record of the ring can have a length that is known when it is written.
	FeatureDynptr = Feature{"bpf_ringbuf_reserve_dynptr", "5.19", sync.OnceValue(func() bool {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnRingbufReserveDynptr) == nil
	})}
)

// linkable asks the kernel for an impossible link of that type, on a directory:
// a kernel that knows the type says EBADF, others EINVAL before.
func linkable(attachType uint32) bool {
	spec := &ebpf.ProgramSpec{
		Type:         ebpf.Kprobe,
		AttachType:   ebpf.AttachType(attachType),
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
		License:      "GPL",
	}
	if attachType == TypePerf {
		spec.AttachType = ebpf.AttachNone
	}
	prog, err := ebpf.NewProgram(spec)
	if err != nil {
		return false
	}
	defer prog.Close()
	dir, err := os.Open("/")
	if err != nil {
		return false
	}
	defer dir.Close()
	var l *Link
	if attachType == TypePerf {
		_, err = createLink(prog, &perfLinkCreate{programFD: uint32(prog.FD()), eventFD: uint32(dir.Fd()), attachType: TypePerf})
	} else {
		l, err = Uprobes(prog, dir, attachType, 0, 0, Places{Offsets: []uint64{0}, Cookies: []uint64{0}})
	}
	l.Close()
	return errors.Is(err, unix.EBADF)
}

// KernelAtLeast reports whether the running kernel calls itself that version
// of Linux, such as "6.10", or a later one.
func KernelAtLeast(version string) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return !OlderThan(unix.ByteSliceToString(u.Release[:]), version)
}

// OlderThan reports whether a release, such as "6.9.12-generic", is older than
// a version. One that cannot be understood is.
func OlderThan(release, version string) bool {
	var x, y, major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &x, &y); n < 2 {
		return true
	}
	fmt.Sscanf(version, "%d.%d", &major, &minor)
	return x < major || x == major && y < minor
}

// CheckRights refuses where the kernel would, in words that help more than
// its EPERM.
func CheckRights(spec *plan.Acquire) error {
	if !process.Numbered() {
		return plan.Errorf(spec.Start, spec.Stop, "%s cannot be acquired from within a PID namespace: the kernel's programs see other numbers of processes", spec.Stream).
			WithHint("run on the host, or in a container that has the host's PID namespace (--pid=host)")
	}
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
