package uprobe

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes/ringbuf"
)

// ring is the consumer of the ring buffer of all queries, and how it sleeps. It
// has one user, who must not call it concurrently; only wake may be called from
// elsewhere.
//
// The kernel submits without waking anybody unless much is waiting. Edge
// triggered epoll is what sleeps through those silent submissions; a level
// triggered one returns at once whenever the ring is not empty.
//
// The runtime's poller waits for the epoll, so that no thread blocks in the
// kernel: for each that did, a hundred times a second, the runtime's monitor would
// wake dozens of times, and an idle query take 3 % of a CPU.
type ring struct {
	*ringbuf.Ring
	event  int
	epoll  *os.File
	conn   syscall.RawConn // of epoll
	events func(fd uintptr) bool
}

func newRing(mapFD, size int) (*ring, error) {
	mapped, err := ringbuf.Map(mapFD, size)
	if err != nil {
		return nil, err
	}
	r := &ring{Ring: mapped, event: -1}
	if err := r.open(mapFD); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ring) open(mapFD int) (err error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if err := unix.SetNonblock(epoll, true); err != nil { // what the poller asks for
		unix.Close(epoll)
		return fmt.Errorf("epoll: %w", err)
	}
	r.epoll = os.NewFile(uintptr(epoll), "epoll")
	if r.conn, err = r.epoll.SyscallConn(); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	r.events = func(fd uintptr) bool {
		var es [2]unix.EpollEvent
		// An error (EINTR) is a short wait: the caller looks at the ring anyway.
		n, err := unix.EpollWait(int(fd), es[:], 0)
		return n > 0 || err != nil
	}
	if r.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range []int{mapFD, r.event} {
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	// A file that cannot be polled has no deadlines.
	if err := r.epoll.SetReadDeadline(time.Time{}); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

func (r *ring) close() {
	if r.epoll != nil {
		r.epoll.Close()
	}
	if r.event >= 0 {
		unix.Close(r.event)
	}
	r.Unmap()
}

// wait sleeps until the kernel or wake wants attention, or d has passed.
func (r *ring) wait(d time.Duration) {
	_ = r.epoll.SetReadDeadline(time.Now().Add(d)) // open has tried
	_ = r.conn.Read(r.events)                      // ends at the deadline with an error
}

// wake ends a wait, also one that begins later.
func (r *ring) wake() {
	one := [8]byte{1}
	unix.Write(r.event, one[:])
}
