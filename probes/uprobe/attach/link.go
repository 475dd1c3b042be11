package attach

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/probes/clock"
	"endoscope/probes/keeper"
	"endoscope/probes/process"
)

// Attach types of include/uapi/linux/bpf.h (and attachPerf). cilium/ebpf loads programs
// of all kinds, but cannot create a session link: it always sets the type to MULTI.
const (
	TypeMulti   = keeper.TypeMulti
	TypeSession = 57 // BPF_TRACE_UPROBE_SESSION, Linux 6.13

	MultiReturn = 1 // BPF_F_UPROBE_MULTI_RETURN
)

// Commands of bpf(2), from the same file.
const (
	cmdRawTracepointOpen = 17 // BPF_RAW_TRACEPOINT_OPEN
	cmdLinkCreate        = 28 // BPF_LINK_CREATE
)

// Link is a set of probes attached together. It lives as long as its file descriptors; a
// link of perf events has one for each probe. Closing them, or process exit, detaches.
// (If the process is killed, the kernel may leave breakpoints of perf events: package
// keeper.)
type Link struct {
	Fds  []int
	PID  int            // the process it is restricted to; 0: none
	Made int64          // boot clock; the link was not made before this time
	File process.FileID // the probed file; zero for a tracepoint

	held *keeper.Held // nil: the descriptors are the only ones
}

// Places are instructions of a file: their offsets in it and the cookies passed to the
// program. Semaphores, unless nil, holds the offset of the counter that the kernel
// increments while the probe is attached, 0 for none.
type Places struct{ Offsets, Cookies, Semaphores []uint64 }

// Uprobes probes the instructions at places of f. pid restricts the link to one process,
// 0 means none; perf events cannot be restricted (Kind.ScopesProcess).
func Uprobes(prog *ebpf.Program, f *os.File, attachType, flags uint32, pid int, at Places) (*Link, error) {
	if attachType == TypePerf {
		return attachEvents(prog, f, flags, at)
	}
	made := clock.Boot()
	held, err := keeper.Create(&keeper.Link{
		Program: prog.FD(), File: int(f.Fd()), AttachType: attachType, Flags: flags, PID: pid,
		Offsets: at.Offsets, Cookies: at.Cookies, Semaphores: at.Semaphores,
	})
	runtime.KeepAlive(prog)
	runtime.KeepAlive(f)
	if err != nil {
		return nil, err
	}
	return &Link{Fds: []int{held.FD}, PID: pid, Made: made, held: &held}, nil
}

// Tracepoint attaches a program of type RawTracepoint to a kernel tracepoint.
func Tracepoint(prog *ebpf.Program, tracepoint string) (*Link, error) {
	name, err := unix.BytePtrFromString(tracepoint)
	if err != nil {
		return nil, err
	}
	attr := struct {
		name      uint64
		programFD uint32
		_         uint32
	}{name: uint64(uintptr(unsafe.Pointer(name))), programFD: uint32(prog.FD())}
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(name)
	fd, err := retry(func() (int, error) {
		return bpfLink(cmdRawTracepointOpen, prog, unsafe.Pointer(&attr), unsafe.Sizeof(attr))
	})
	if err != nil {
		return nil, err
	}
	return &Link{Fds: []int{fd}}, nil
}

// createLink executes BPF_LINK_CREATE for a perf event.
func createLink(prog *ebpf.Program, attr *perfLinkCreate) (int, error) {
	return bpfLink(cmdLinkCreate, prog, unsafe.Pointer(attr), unsafe.Sizeof(*attr))
}

// bpfLink executes a command of bpf(2) that returns the descriptor of a link to prog.
func bpfLink(command uintptr, prog *ebpf.Program, attr unsafe.Pointer, size uintptr) (int, error) {
	fd, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(attr), size)
	runtime.KeepAlive(prog)
	if errno != 0 {
		return -1, errno
	}
	unix.CloseOnExec(int(fd))
	return int(fd), nil
}

// retry calls f until it does not return EINTR.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if err != unix.EINTR && err != unix.EAGAIN {
			return n, err
		}
	}
}

// closers is how many descriptors of a link are closed concurrently. The kernel waits
// for several grace periods for each perf event, and not for all of them under its one
// lock: 0.08 s for each event instead of 0.25 s on Linux 6.18.
const closers = 8

// Close detaches the link. When it returns, no program of the link is running.
func (l *Link) Close() {
	if l == nil {
		return
	}
	if l.held != nil {
		l.held.Close()
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(closers, len(l.Fds)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(l.Fds)); i = next.Add(1) - 1 {
				unix.Close(l.Fds[i])
			}
		})
	}
	wg.Wait()
}

// BeginClose begins to detach the link and returns a function that waits until no program of
// the link is running. A link of perf events is detached by that function.
func (l *Link) BeginClose() (wait func()) {
	if l.held == nil {
		return l.Close
	}
	l.held.Begin()
	return l.held.Wait
}

// BeginCloseAll is BeginClose for all links.
func BeginCloseAll(links []*Link) (wait func()) {
	waits := make([]func(), len(links))
	for i, l := range links {
		waits[i] = l.BeginClose()
	}
	return func() {
		for _, wait := range waits {
			wait()
		}
	}
}

func CloseAll(links []*Link) {
	for _, l := range links {
		l.Close()
	}
}

// RefusedSite finds by bisection an offset that the kernel refuses: one such site fails
// the whole link. It returns the index and the kernel's error, or -1 if each half
// attaches by itself.
func RefusedSite(try func(lo, hi int) error, n int) (int, error) {
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
