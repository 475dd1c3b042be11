package uprobe

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Attach types of include/uapi/linux/bpf.h. cilium/ebpf loads programs of both
// kinds, but cannot link a session: its call always sets the type to MULTI.
const (
	attachMulti   = 48 // BPF_TRACE_UPROBE_MULTI, Linux 6.6
	attachSession = 57 // BPF_TRACE_UPROBE_SESSION, Linux 6.13

	multiReturn = 1 // BPF_F_UPROBE_MULTI_RETURN
)

const cmdLinkCreate = 28 // BPF_LINK_CREATE

// linkCreate is the part of union bpf_attr that creates a uprobe_multi link.
type linkCreate struct {
	programFD, targetFD, attachType, flags uint32
	path, offsets, refCounters, cookies    uint64
	count, multiFlags, pid, _              uint32
}

// link is a set of probes attached together. It lives as long as its file
// descriptor: closing that, or dying, detaches.
type link struct{ fd int }

// attach probes the instructions at the file offsets of f; cookies go to the
// program, one for each offset. pid restricts it to one process, 0 to none.
func attach(prog *ebpf.Program, f *os.File, attachType, multiFlags uint32, pid int, offsets, cookies []uint64) (*link, error) {
	// The descriptor is the file that was examined; its name may by now lead
	// elsewhere, or nowhere from our root.
	path, err := unix.BytePtrFromString(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return nil, err
	}
	attr := linkCreate{
		programFD:  uint32(prog.FD()),
		attachType: attachType,
		path:       uint64(uintptr(unsafe.Pointer(path))),
		offsets:    uint64(uintptr(unsafe.Pointer(unsafe.SliceData(offsets)))),
		cookies:    uint64(uintptr(unsafe.Pointer(unsafe.SliceData(cookies)))),
		count:      uint32(len(offsets)),
		multiFlags: multiFlags,
		pid:        uint32(pid),
	}
	// The kernel is given addresses as numbers, which keep nothing alive and
	// would not follow a stack that moves.
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(path)
	pin.Pin(unsafe.SliceData(offsets))
	pin.Pin(unsafe.SliceData(cookies))
	for {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, cmdLinkCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		runtime.KeepAlive(prog)
		runtime.KeepAlive(f)
		switch errno {
		case 0:
			unix.CloseOnExec(int(fd))
			return &link{fd: int(fd)}, nil
		case unix.EINTR, unix.EAGAIN:
			continue
		}
		return nil, errno
	}
}

// close detaches. When it returns, no program of the link runs any more.
func (l *link) close() {
	if l != nil {
		unix.Close(l.fd)
	}
}

func closeLinks(links []*link) {
	for _, l := range links {
		l.close()
	}
}

// culprit finds an offset that the kernel refuses, by halving: one such site
// fails the whole link. It returns an index, and the kernel's reason; -1 if
// each half attaches by itself.
func culprit(try func(lo, hi int) error, n int) (int, error) {
	lo, hi := 0, n
	var reason error
	for hi-lo > 1 {
		mid := (lo + hi) / 2
		if err := try(lo, mid); err != nil {
			hi, reason = mid, err
			continue
		}
		if err := try(mid, hi); err != nil {
			lo, reason = mid, err
			continue
		}
		return -1, nil
	}
	if reason == nil {
		reason = try(lo, hi)
	}
	if reason == nil {
		return -1, nil
	}
	return lo, reason
}
