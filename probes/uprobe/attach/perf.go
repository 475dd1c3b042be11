package attach

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// TypePerf is BPF_PERF_EVENT of include/uapi/linux/bpf.h: a link between a
// program and a perf event, with a cookie since Linux 5.15.
const TypePerf = 41

// perfLinkCreate is the part of union bpf_attr that creates such a link. It is no longer
// than the struct of kernels of that time: they refuse unknown trailing bytes.
type perfLinkCreate struct {
	programFD, eventFD, attachType, _ uint32 // flags
	cookie                            uint64
}

// perfSemaphore is the first bit of the counter offset in perf_event_attr.config
// (PERF_UPROBE_REF_CTR_OFFSET_SHIFT, Linux 4.20).
const perfSemaphore = 32

// perfUprobes reads how the kernel identifies its uprobe perf events, which are a
// dynamic PMU.
var perfUprobes = sync.OnceValues(func() (pmu struct {
	event     uint32 // perf_event_attr.type
	returnBit uint64 // of perf_event_attr.config
}, err error) {
	const dir = "/sys/bus/event_source/devices/uprobe/"
	read := func(name, format string, n any) {
		b, e := os.ReadFile(dir + name)
		if e == nil {
			_, e = fmt.Sscanf(strings.TrimSpace(string(b)), format, n)
		}
		if e != nil && err == nil {
			err = fmt.Errorf("%s%s: %w", dir, name, e)
		}
	}
	var bit uint
	read("type", "%d", &pmu.event)
	read("format/retprobe", "config:%d", &bit)
	pmu.returnBit = 1 << bit
	return pmu, err
})

// SiteError is the kernel's refusal of one site of several.
type SiteError struct {
	Index int
	Err   error
}

func (e *SiteError) Error() string { return e.Err.Error() }

func (e *SiteError) Unwrap() error { return e.Err }

// attachEvents attaches a perf event of its own to each place of f and links the program
// to it. Its errors are of type *SiteError.
func attachEvents(prog *ebpf.Program, f *os.File, flags uint32, at Places) (*Link, error) {
	path, err := unix.BytePtrFromString("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
	if err != nil {
		return nil, err
	}
	l := &Link{Fds: make([]int, 0, len(at.Offsets))}
	for i, offset := range at.Offsets {
		semaphore := uint64(0)
		if at.Semaphores != nil {
			semaphore = at.Semaphores[i]
		}
		fd, err := attachEvent(prog, path, flags&MultiReturn != 0, offset, semaphore, at.Cookies[i])
		if err != nil {
			l.Close()
			return nil, &SiteError{i, err}
		}
		l.Fds = append(l.Fds, fd)
	}
	runtime.KeepAlive(f)
	return l, nil
}

// attachEvent opens one event and returns the link that keeps it alive.
//
// The event covers every process. An event restricted to a process (perf_event_open's
// pid) fires only while the thread of that id lives, and stops silently when the main
// thread exits before the others (uprobe_perf_filter in kernel/trace/trace_uprobe.c
// compares with that thread's memory). attr.inherit would make clone() fail with EFAULT
// in the target. The event names one CPU, as events of every process must, and is never
// enabled: the program runs on every CPU and before the kernel looks for enabled events
// (__uprobe_perf_func), which would only cost the scheduler.
func attachEvent(prog *ebpf.Program, path *byte, atReturn bool, offset, semaphore, cookie uint64) (int, error) {
	pmu, err := perfUprobes()
	if err != nil {
		return -1, err
	}
	attr := unix.PerfEventAttr{
		Type: pmu.event,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Bits: unix.PerfBitDisabled,
		Ext1: uint64(uintptr(unsafe.Pointer(path))), // uprobe_path
		Ext2: offset,                                // probe_offset
	}
	attr.Config = semaphore << perfSemaphore
	if atReturn {
		attr.Config |= pmu.returnBit
	}
	var pin runtime.Pinner // see Uprobes
	defer pin.Unpin()
	pin.Pin(path)
	event, err := retry(func() (int, error) {
		return unix.PerfEventOpen(&attr, -1, 0, -1, unix.PERF_FLAG_FD_CLOEXEC)
	})
	if err != nil {
		return -1, err
	}
	// The link keeps the event alive.
	defer unix.Close(event)
	return retry(func() (int, error) {
		return createLink(prog, &perfLinkCreate{programFD: uint32(prog.FD()), eventFD: uint32(event), attachType: TypePerf, cookie: cookie})
	})
}
