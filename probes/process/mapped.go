package process

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Mapped tells of an executable mapping that a process has just made.
type Mapped struct {
	PID  int
	Time int64 // of the boot clock, ns
	Mapping
}

// MapWatch tells of the executable mappings of files that processes make, of all
// processes of the machine, as the kernel does to whoever samples them
// (PERF_RECORD_MMAP2 of perf_event_open(2)): with a record for each in a buffer
// of its processor.
type MapWatch struct {
	rings []mapRing
	wake  int // eventfd, written to end the watch
	told  func(Mapped)
	lost  func(n uint64)
	ended sync.WaitGroup
}

// mapPages is the size of a processor's buffer, a power of two: room for about
// 500 mappings, some 50 programs that start between two looks.
const mapPages = 16

// mapRing is one processor's event and its records.
type mapRing struct {
	fd   int
	page *unix.PerfEventMmapPage
	mem  []byte
}

// WatchMappings begins to call told for each mapping, and lost with how many the
// kernel had no room to tell of; both from one goroutine, and not any more once
// Close has returned.
func WatchMappings(told func(Mapped), lost func(n uint64)) (*MapWatch, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	w := &MapWatch{told: told, lost: lost}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	for cpu := range cpus {
		r, err := openMapRing(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // possible, but not there
		}
		if err != nil {
			w.close()
			return nil, fmt.Errorf("the kernel does not tell what processes map: %w", err)
		}
		w.rings = append(w.rings, r)
	}
	w.ended.Go(w.run)
	return w, nil
}

func openMapRing(cpu int) (r mapRing, err error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME,
		Bits:        unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Wakeup:      1, // byte
		Clockid:     unix.CLOCK_BOOTTIME,
	}
	if r.fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC); err != nil {
		return mapRing{}, err
	}
	if r.mem, err = unix.Mmap(r.fd, 0, (1+mapPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		unix.Close(r.fd)
		return mapRing{}, err
	}
	r.page = (*unix.PerfEventMmapPage)(unsafe.Pointer(&r.mem[0]))
	return r, nil
}

// Close ends the watch.
func (w *MapWatch) Close() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(w.wake, one[:])
	w.ended.Wait()
	w.close()
}

func (w *MapWatch) close() {
	for _, r := range w.rings {
		unix.Munmap(r.mem)
		unix.Close(r.fd)
	}
	unix.Close(w.wake)
}

func (w *MapWatch) run() {
	fds := []unix.PollFd{{Fd: int32(w.wake), Events: unix.POLLIN}}
	for _, r := range w.rings {
		fds = append(fds, unix.PollFd{Fd: int32(r.fd), Events: unix.POLLIN})
	}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents != 0 {
			return
		}
		for i := range w.rings {
			w.rings[i].drain(w.told, w.lost)
		}
	}
}

// drain reads what is there. Records are not split at the end of the buffer
// while they are looked at: they are copied.
func (r *mapRing) drain(told func(Mapped), lost func(n uint64)) {
	const header = 8
	data := r.mem[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&r.page.Data_head), r.page.Data_tail
	var buf []byte
	for head-tail >= header {
		at := int(tail) & (len(data) - 1)
		size := int(binary.NativeEndian.Uint16(data[at+6:])) // records are aligned to 8 bytes
		if size < header || uint64(size) > head-tail {
			break
		}
		buf = append(buf[:0], data[at:min(at+size, len(data))]...)
		buf = append(buf, data[:size-len(buf)]...)
		switch binary.NativeEndian.Uint32(buf) {
		case unix.PERF_RECORD_MMAP2:
			if m, ok := parseMapped(buf[header:]); ok {
				told(m)
			}
		case unix.PERF_RECORD_LOST:
			if len(buf) >= header+16 {
				lost(binary.NativeEndian.Uint64(buf[header+8:]))
			}
		}
		tail += uint64(size)
		atomic.StoreUint64(&r.page.Data_tail, tail)
	}
}

// parseMapped reads the body of a PERF_RECORD_MMAP2 (include/uapi/linux/perf_event.h)
// with its time behind it; false: it is of no file.
func parseMapped(b []byte) (m Mapped, ok bool) {
	const fixed, trailer = 64, 8
	if len(b) < fixed+trailer {
		return Mapped{}, false
	}
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	m.PID = int(int32(u32(b)))
	m.Start, m.Offset = u64(b[8:]), u64(b[24:])
	m.End = m.Start + u64(b[16:])
	m.Dev, m.Inode = mkdev(uint64(u32(b[32:])), uint64(u32(b[36:]))), u64(b[40:])
	name, _, _ := bytes.Cut(b[fixed:len(b)-trailer], []byte{0})
	m.Path = string(name)
	m.Time = int64(u64(b[len(b)-trailer:]))
	return m, m.Inode != 0 && len(name) > 0 && name[0] == '/'
}
