package stack

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Bits of a record's header (include/uapi/linux/bpf.h, BPF_RINGBUF_*).
const (
	ringHeader  = 8
	ringBusy    = 1 << 31
	ringDiscard = 1 << 30
)

// ring is the consumer of the samplers' ring buffer, mapped into memory, so
// that a stack is unwound where the kernel copied it. The samplers run while we
// wait for them: when ring is read nothing is being written.
type ring struct {
	consumer, producer *uint64
	data               []byte // the buffer twice in a row: no record is split
	mask               uint64
	maps               [2][]byte
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
	return &ring{
		consumer: (*uint64)(unsafe.Pointer(&cons[0])),
		producer: (*uint64)(unsafe.Pointer(&prod[0])),
		data:     prod[page:],
		mask:     uint64(size - 1),
		maps:     [2][]byte{cons, prod},
	}, nil
}

func (r *ring) close() {
	for _, m := range r.maps {
		unix.Munmap(m)
	}
}

// drain gives the records to f, in order. The bytes are valid during the call
// only.
func (r *ring) drain(f func([]byte)) {
	pos := *r.consumer // only we write it
	for end := atomic.LoadUint64(r.producer); pos < end; {
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
		atomic.StoreUint64(r.consumer, pos)
	}
}
