package uprobe

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bits of a record's header (include/uapi/linux/bpf.h, BPF_RINGBUF_*).
const (
	ringHeader  = 8
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
)

// ring is the consumer of a BPF ring buffer, mapped into memory, so that an
// event is read where the kernel wrote it. It has one user, who must not call
// it concurrently; only wake may be called from elsewhere.
//
// The kernel submits without waking anybody unless much is waiting. Edge
// triggered epoll is what sleeps through those silent submissions; a level
// triggered one returns at once whenever the ring is not empty.
type ring struct {
	consumer, producer *uint64
	data               []byte // the buffer twice in a row: no record is split
	mask               uint64
	maps               [2][]byte
	epoll, event       int
}

func newRing(mapFD, size int) (*ring, error) {
	page := os.Getpagesize()
	cons, err := unix.Mmap(mapFD, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("mapping the ring buffer: %w", err)
	}
	prod, err := unix.Mmap(mapFD, int64(page), page+2*size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		unix.Munmap(cons)
		return nil, fmt.Errorf("mapping the ring buffer: %w", err)
	}
	r := &ring{
		consumer: (*uint64)(unsafe.Pointer(&cons[0])),
		producer: (*uint64)(unsafe.Pointer(&prod[0])),
		data:     prod[page:],
		mask:     uint64(size - 1),
		maps:     [2][]byte{cons, prod},
		epoll:    -1,
		event:    -1,
	}
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
	for _, m := range r.maps {
		unix.Munmap(m)
	}
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

// produced is the position up to which the kernel has reserved records.
func (r *ring) produced() uint64 { return atomic.LoadUint64(r.producer) }

// drain gives the records before position end to f, in order, and stops early
// at one that is still being written. The bytes are valid during the call
// only. It returns the position reached.
func (r *ring) drain(end uint64, f func([]byte)) uint64 {
	pos := *r.consumer // only we write it
	freed := pos
	for pos < end {
		at := pos & r.mask
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if head&ringBusy != 0 {
			break
		}
		n := uint64(head &^ (ringBusy | ringDiscard))
		if head&ringDiscard == 0 {
			f(r.data[at+ringHeader : at+ringHeader+n : at+ringHeader+n])
		}
		pos += (ringHeader + n + 7) &^ 7
		// Space is given back in steps: the store takes the cache line from
		// the kernel, which reads it for each reservation.
		if pos-freed >= 4096 {
			atomic.StoreUint64(r.consumer, pos)
			freed = pos
		}
	}
	atomic.StoreUint64(r.consumer, pos)
	return pos
}
