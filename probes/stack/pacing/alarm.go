package pacing

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/sysmon"
)

// Alarm wakes a thread at an instant, or earlier if it is rung. The thread waits in
// the kernel itself, not on a Go timer, so that the kernel wakes this thread: its
// priority, and no other thread's, decides when it gets a CPU.
//
// A thread that waits in the kernel has the runtime's monitor wake some sixty times, since
// it has a P still. So all of a long time but its end is waited for in the runtime's poller.
type Alarm struct {
	mu    sync.Mutex // guards event
	event int        // eventfd; -1: closed
	file  *os.File   // the same
	conn  syscall.RawConn
}

func NewAlarm() (*Alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	a := &Alarm{event: fd, file: os.NewFile(uintptr(fd), "eventfd")}
	if a.conn, err = a.file.SyscallConn(); err == nil {
		err = a.file.SetReadDeadline(time.Time{}) // fails if it cannot be polled
	}
	if err != nil {
		a.file.Close()
		return nil, err
	}
	return a, nil
}

// Ring ends a sleep, or prevents the next one. It is safe for concurrent use.
func (a *Alarm) Ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.event >= 0 {
		_, _ = unix.Write(a.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it fails only after 2^64 rings
	}
}

// Sleep returns after d, when the alarm is rung, or earlier: the caller checks the
// clock. Only one goroutine may call Sleep, and only that goroutine may close the
// alarm.
func (a *Alarm) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	if d > sysmon.Long {
		until := time.Now().Add(d - sysmon.Ending)
		_ = a.file.SetReadDeadline(until) // NewAlarm has checked that this works
		if a.conn.Read(a.rung) == nil {
			return
		}
		if d = sysmon.Ending - time.Since(until); d <= 0 {
			return
		}
	}
	fds := [1]unix.PollFd{{Fd: int32(a.event), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(d))
	if n, err := unix.Ppoll(fds[:], &timeout, nil); n <= 0 || err != nil {
		return
	}
	a.rung(uintptr(a.event))
}

// rung reports whether the alarm was rung, and resets it.
func (a *Alarm) rung(fd uintptr) bool {
	var count [8]byte
	n, _ := unix.Read(int(fd), count[:])
	return n > 0
}

func (a *Alarm) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.file.Close()
	a.event = -1
}

// Priority is a thread's priority among the threads that wait for a CPU. If all CPUs
// are busy, a thread that wakes usually gets a CPU when another thread gives it up: a
// sampler would then always see that thread at rest, and see the threads that keep the
// CPUs busy too rarely. So the priority is raised while the thread waits for its next
// snapshot, until the snapshot is copied, and lowered for work that can be done later.
//
// The thread keeps the ordinary scheduling policy, which cannot starve other threads
// as a real-time policy could.
type Priority struct {
	usual  *unix.SchedAttr
	Raised bool
}

// The highest priority, and the shortest slice that the kernel allows: a thread with a
// shorter slice may preempt one with a longer slice (since Linux 6.12; PREEMPT_SHORT
// in kernel/sched/fair.c).
const (
	FirstNice  = -20
	shortSlice = 100 * time.Microsecond
)

// Raise raises the priority of the calling thread, to which its goroutine must be
// locked. It has no effect on a thread of a real-time policy. Without CAP_SYS_NICE it
// only shortens the slice.
func (p *Priority) Raise() {
	if p == nil || p.Raised {
		return
	}
	if p.usual == nil {
		usual, err := unix.SchedGetAttr(0, 0)
		if err != nil {
			return
		}
		p.usual = usual
		p.usual.Runtime = 0 // 0: the kernel's default
	}
	if p.usual.Policy != unix.SCHED_NORMAL {
		return
	}
	attr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL, Nice: FirstNice, Runtime: uint64(shortSlice)}
	if unix.SchedSetAttr(0, &attr, 0) != nil {
		attr.Nice = p.usual.Nice
		if unix.SchedSetAttr(0, &attr, 0) != nil {
			return
		}
	}
	p.Raised = true
}

// Lower restores the usual priority, and reports whether it succeeded.
func (p *Priority) Lower() bool {
	if p != nil && p.Raised {
		p.Raised = unix.SchedSetAttr(0, p.usual, 0) != nil
		return !p.Raised
	}
	return true
}
