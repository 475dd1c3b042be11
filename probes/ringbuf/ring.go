package ringbuf

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
	header  = 8
	busy    = 1 << 31
	discard = 1 << 30
)

// Ring is the consumer of a buffer. It is not safe for concurrent use.
type Ring struct {
	consumer, producer *uint64
	data               []byte // the buffer mapped twice in a row: no record is split
	mask               uint64
	maps               [2][]byte
}

// Map maps the buffer of a BPF_MAP_TYPE_RINGBUF of size bytes.
func Map(mapFD, size int) (*Ring, error) {
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
	return &Ring{
		consumer: (*uint64)(unsafe.Pointer(&cons[0])),
		producer: (*uint64)(unsafe.Pointer(&prod[0])),
		data:     prod[page:],
		mask:     uint64(size - 1),
		maps:     [2][]byte{cons, prod},
	}, nil
}

// Unmap unmaps the buffer.
func (r *Ring) Unmap() {
	for _, m := range r.maps {
		unix.Munmap(m)
	}
}

// Produced returns the position up to which the kernel has reserved records.
func (r *Ring) Produced() uint64 { return atomic.LoadUint64(r.producer) }

// Consumed returns the position up to which records have been read.
func (r *Ring) Consumed() uint64 { return *r.consumer } // only we write it

// DrainAll calls f with the records that have been reserved until now, in order.
// It waits for those that are still being written.
func (r *Ring) DrainAll(f func([]byte)) {
	for end := r.Produced(); r.Drain(end, f) < end; {
		time.Sleep(50 * time.Microsecond)
	}
}

// Drain calls f with the records before position end, in order, and stops early
// at one that is still being written. The bytes are valid during the call only.
// It returns the position reached.
func (r *Ring) Drain(end uint64, f func([]byte)) uint64 {
	pos := r.Consumed()
	freed := pos
	for pos < end {
		at := pos & r.mask
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at])))
		if head&busy != 0 {
			break
		}
		n := uint64(head &^ (busy | discard))
		if head&discard == 0 {
			f(r.data[at+header : at+header+n : at+header+n])
		}
		pos += (header + n + 7) &^ 7
		// Space is released in steps: the store takes the cache line from the
		// kernel, which reads it for each reservation.
		if pos-freed >= 4096 {
			atomic.StoreUint64(r.consumer, pos)
			freed = pos
		}
	}
	atomic.StoreUint64(r.consumer, pos)
	return pos
}
