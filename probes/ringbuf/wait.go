package ringbuf

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Waiter waits for records of a buffer. It is not safe for concurrent use,
// except for Wake.
//
// Records may be submitted without a notification. Edge-triggered epoll ignores
// such submissions; level-triggered epoll would return at once whenever the
// ring is not empty.
//
// The epoll descriptor is registered with the Go runtime's network poller, so
// that no thread blocks in the kernel: if one did, a hundred times a second,
// the runtime's monitor would wake dozens of times for each, and an idle query
// would use 3 % of a CPU.
type Waiter struct {
	event  int
	epoll  *os.File
	conn   syscall.RawConn // of epoll
	events func(fd uintptr) bool
}

// NewWaiter returns a Waiter for the buffer of a BPF_MAP_TYPE_RINGBUF.
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
	if err := unix.SetNonblock(epoll, true); err != nil { // required by the poller
		unix.Close(epoll)
		return fmt.Errorf("epoll: %w", err)
	}
	w.epoll = os.NewFile(uintptr(epoll), "epoll")
	if w.conn, err = w.epoll.SyscallConn(); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	w.events = func(fd uintptr) bool {
		var es [2]unix.EpollEvent
		// An error (EINTR) is a short wait: the caller reads the ring anyway.
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
	// Fails if the file cannot be polled.
	if err := w.epoll.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// Close releases the waiter.
func (w *Waiter) Close() {
	if w.epoll != nil {
		w.epoll.Close()
	}
	if w.event >= 0 {
		unix.Close(w.event)
	}
}

// Wait sleeps until the kernel or Wake signals, or d has passed.
func (w *Waiter) Wait(d time.Duration) {
	_ = w.epoll.SetReadDeadline(time.Now().Add(d)) // NewWaiter has checked that this works
	_ = w.conn.Read(w.events)                      // returns an error at the deadline
}

// Wake ends the current or the next Wait.
func (w *Waiter) Wake() {
	one := [8]byte{1}
	unix.Write(w.event, one[:])
}
