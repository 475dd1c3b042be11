package attach

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/features"
	"golang.org/x/sys/unix"
)

// Feature is a kernel feature that not every supported kernel has. It is detected once,
// on first use.
type Feature struct {
	Name  string // completes "this kernel has no ..."
	Since string // the Linux version that introduced it
	Has   func() bool
}

// Kernel features that decide how probes are attached.
var (
	// One program handles both entry and return.
	FeatureSession = Feature{"uprobe sessions", "6.13", sync.OnceValue(func() bool { return linkable(TypeSession) })}
	// One link holds many probes.
	FeatureMulti = Feature{"links of many uprobes", "6.6", sync.OnceValue(func() bool { return linkable(TypeMulti) })}
	// A perf event link carries a cookie.
	FeaturePerf = Feature{"perf-event links with cookies", "5.15", sync.OnceValue(func() bool {
		_, err := perfUprobes()
		return err == nil && linkable(TypePerf)
	})}
	// The pid of a multi link means the process. In earlier kernels it means one thread,
	// and the program has to filter; user space cannot detect the difference.
	FeatureProcess = Feature{"uprobe links restricted to a process", "6.10", sync.OnceValue(func() bool { return KernelAtLeast("6.10") })}
	// A program can look up the VMA of a stack (bpf_find_vma).
	FeatureFindVMA = Feature{"bpf_find_vma", "5.17", sync.OnceValue(func() bool {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnFindVma) == nil
	})}
	// A program can safely allocate an entry of a hash table; see preallocate. Older
	// kernels allow it too, so only the version tells whether it is safe.
	FeatureAllocation = Feature{"allocation by programs", "6.1", sync.OnceValue(func() bool { return KernelAtLeast("6.1") })}
	// A program can wait for memory of the target. Sleepable uprobe programs came with
	// Linux 6.0. So that user space can wait until a program has left the state of an
	// aggregate, it calls functions between bpf_rcu_read_lock and its end.
	FeatureWait = Feature{"programs that wait for memory", "6.9", sync.OnceValue(func() bool {
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.Kprobe, License: "GPL", Flags: unix.BPF_F_SLEEPABLE,
			Instructions: asm.Instructions{
				asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), asm.Mov.Imm(asm.R2, 8), asm.Mov.Imm(asm.R3, 0),
				asm.FnCopyFromUser.Call(), asm.Mov.Imm(asm.R0, 0), asm.Return(),
			},
		})
		if err != nil {
			return false
		}
		defer prog.Close()
		return KernelAtLeast("6.9")
	})}
	// A program can follow a list of any length (bpf_loop).
	FeatureLoop = Feature{"bpf_loop", "5.17", sync.OnceValue(func() bool {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnLoop) == nil
	})}
	// A record in the ring buffer can have a length that is known only at run time.
	FeatureDynptr = Feature{"bpf_ringbuf_reserve_dynptr", "5.19", sync.OnceValue(func() bool {
		return features.HaveProgramHelper(ebpf.Kprobe, asm.FnRingbufReserveDynptr) == nil
	})}
)

// linkable reports whether the kernel knows an attach type. It requests an impossible
// link, on a directory: a kernel that knows the type returns EBADF, others return EINVAL
// earlier.
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

// KernelAtLeast reports whether the running kernel is the given version of Linux, such
// as "6.10", or later.
func KernelAtLeast(version string) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	return !OlderThan(unix.ByteSliceToString(u.Release[:]), version)
}

// OlderThan reports whether a release, such as "6.9.12-generic", is older than a
// version. It returns true for a release that cannot be parsed.
func OlderThan(release, version string) bool {
	var x, y, major, minor int
	if n, _ := fmt.Sscanf(release, "%d.%d", &x, &y); n < 2 {
		return true
	}
	fmt.Sscanf(version, "%d.%d", &major, &minor)
	return x < major || x == major && y < minor
}
