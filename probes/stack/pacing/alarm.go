package pacing

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Alarm wakes a thread at an instant, or before if it is rung. The thread waits in
// the kernel itself, instead of by a timer of Go's, so that it is the one that the
// kernel wakes: its priority decides when it gets a CPU, and no other thread's.
type Alarm struct {
	mu    sync.Mutex // guards event
	event int        // eventfd; -1: closed
}

func NewAlarm() (*Alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return &Alarm{event: fd}, nil
}

// Ring ends a sleep, or keeps the next one from beginning. Anybody may call it.
func (a *Alarm) Ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.event >= 0 {
		_, _ = unix.Write(a.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // it fails only where it has been rung 2^64 times
	}
}

// Sleep returns after d, when the alarm is rung, or before: its caller looks at
// the clock. Only one goroutine sleeps, and it alone closes.
func (a *Alarm) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	fds := [1]unix.PollFd{{Fd: int32(a.event), Events: unix.POLLIN}}
	timeout := unix.NsecToTimespec(int64(d))
	if n, err := unix.Ppoll(fds[:], &timeout, nil); n <= 0 || err != nil {
		return
	}
	var count [8]byte
	_, _ = unix.Read(a.event, count[:])
}

func (a *Alarm) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	unix.Close(a.event)
	a.event = -1
}

// Priority is that of a thread among those that wait for a CPU. Where all CPUs
// are busy a thread that wakes gets one, as a rule, when another gives it up: a
// sampler then sees that one at rest each time, and those that keep the CPUs busy
// too rarely. So it is raised while it waits for its next snapshot, until that is
// copied, and lowered for what can be done later.
//
// It stays one of the ordinary policy, which can keep no other thread from
// running, as a real-time one could.
type Priority struct {
	usual  *unix.SchedAttr
	Raised bool
}

// The first of priorities, and the shortest slice that the kernel allows: one that
// asks for less may interrupt one that has more (from Linux 6.12 on;
// PREEMPT_SHORT in kernel/sched/fair.c).
const (
	FirstNice  = -20
	shortSlice = 100 * time.Microsecond
)

// Raise gives the calling thread, to which its goroutine must be bound, a CPU
// before others. It does nothing to one of a real-time policy. Without CAP_SYS_NICE
// only the slice is short.
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
		p.usual.Runtime = 0 // as long as the kernel likes
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

// Lower makes the thread one of many again, and reports whether it is.
func (p *Priority) Lower() bool {
	if p != nil && p.Raised {
		p.Raised = unix.SchedSetAttr(0, p.usual, 0) != nil
		return !p.Raised
	}
	return true
}
