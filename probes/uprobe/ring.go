package uprobe

import (
	"fmt"
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
type ring struct {
	*ringbuf.Ring
	epoll, event int
}

func newRing(mapFD, size int) (*ring, error) {
	mapped, err := ringbuf.Map(mapFD, size)
	if err != nil {
		return nil, err
	}
	r := &ring{Ring: mapped, epoll: -1, event: -1}
	if err := r.open(mapFD); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *ring) open(mapFD int) (err error) {
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	if r.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	for _, fd := range []int{mapFD, r.event} {
		e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(fd)}
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
	}
	return nil
}

func (r *ring) close() {
	if r.epoll >= 0 {
		unix.Close(r.epoll)
	}
	if r.event >= 0 {
		unix.Close(r.event)
	}
	r.Unmap()
}

// wait sleeps until the kernel or wake wants attention, or d has passed.
func (r *ring) wait(d time.Duration) {
	var es [2]unix.EpollEvent
	// An error (EINTR) is a short wait: the caller looks at the ring anyway.
	unix.EpollWait(r.epoll, es[:], int(d.Milliseconds()))
}

// wake ends a wait, also one that begins later.
func (r *ring) wake() {
	one := [8]byte{1}
	unix.Write(r.event, one[:])
}
