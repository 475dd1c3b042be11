package ringbuf

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter is how the user of a buffer sleeps. It has one user, who must not call it
// concurrently; only Wake may be called from elsewhere.
//
// Records may be submitted without waking anybody. Edge triggered epoll is what sleeps
// through those silent submissions; a level triggered one returns at once whenever the
// ring is not empty.
//
// The runtime's poller waits for the epoll, so that no thread blocks in the
// kernel: for each that did, a hundred times a second, the runtime's monitor would
// wake dozens of times, and an idle query take 3 % of a CPU.
type Waiter struct {
	event  int
	epoll  *os.File
	conn   syscall.RawConn // of epoll
	events func(fd uintptr) bool
}

// NewWaiter waits for the buffer of a BPF_MAP_TYPE_RINGBUF.
func NewWaiter(mapFD int) (*Waiter, error) {
	w := &Waiter{event: -1}
	if err := w.open(mapFD); err != nil {
		w.Close()
		return nil, err
	}
	return w, nil
}

func (w *Waiter) open(mapFD int) (err error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // what the poller asks for
		unix.Close(epoll)
		return fmt.Errorf("epoll: %w", err)
	}
	w.epoll = os.NewFile(uintptr(epoll), "epoll")
	if w.conn, err = w.epoll.SyscallConn(); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	w.events = func(fd uintptr) bool {
		var es [2]unix.EpollEvent
		// An error (EINTR) is a short wait: the caller looks at the ring anyway.
		n, err := unix.EpollWait(int(fd), es[:], 0)
		return n > 0 || err != nil
	}
	if w.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range []int{mapFD, w.event} {
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	// A file that cannot be polled has no deadlines.
	if err := w.epoll.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// Close ends the use of the waiter.
func (w *Waiter) Close() {
	if w.epoll != nil {
		w.epoll.Close()
	}
	if w.event >= 0 {
		unix.Close(w.event)
	}
}

// Wait sleeps until the kernel or Wake wants attention, or d has passed.
func (w *Waiter) Wait(d time.Duration) {
	_ = w.epoll.SetReadDeadline(time.Now().Add(d)) // open has tried
	_ = w.conn.Read(w.events)                      // ends at the deadline with an error
}

// Wake ends a wait, also one that begins later.
func (w *Waiter) Wake() {
	one := [8]byte{1}
	unix.Write(w.event, one[:])
}
