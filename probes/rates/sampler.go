package rates

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

const (
	// period is the processor time between two samples: 10,000 a second cost a
	// busy processor 2 to 4 % during sampling.
	period = 100 * time.Microsecond
	// ringPages is room for the samples of a quarter of a second; must be a
	// power of 2.
	ringPages = 16
)

// sample is what a processor executed.
type sample struct {
	pid  int
	ip   uint64
	user bool // otherwise in the kernel, on behalf of the process
}

// sampler samples all busy processors by the kernel's software clock
// (perf_event_open(2)), often the only one in virtual machines.
type sampler struct {
	rings []perfRing
	buf   [64]byte
}

// perfRing is one processor's event and its samples.
type perfRing struct {
	fd   int
	page *unix.PerfEventMmapPage
	mem  []byte
}

func openSampler() (*sampler, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	s := &sampler{}
	for cpu := range cpus {
		r, err := openRing(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // possible, but not present
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("sampling processor %d: %w", cpu, err)
		}
		s.rings = append(s.rings, r)
	}
	return s, nil
}

func openRing(cpu int) (perfRing, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:      uint64(period),
		Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID,
		Bits:        unix.PerfBitExcludeIdle,
	}
	fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return perfRing{}, err
	}
	mem, err := unix.Mmap(fd, 0, (1+ringPages)*os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return perfRing{}, err
	}
	return perfRing{fd: fd, page: (*unix.PerfEventMmapPage)(unsafe.Pointer(&mem[0])), mem: mem}, nil
}

func (s *sampler) close() {
	for _, r := range s.rings {
		unix.Munmap(r.mem)
		unix.Close(r.fd)
	}
	s.rings = nil
}

// enable resumes or stops sampling.
func (s *sampler) enable(on bool) {
	request := uint(unix.PERF_EVENT_IOC_DISABLE)
	if on {
		request = unix.PERF_EVENT_IOC_ENABLE
	}
	for _, r := range s.rings {
		unix.IoctlSetInt(r.fd, request, 0)
	}
}

// read calls f with the samples taken since the last call.
func (s *sampler) read(f func(sample)) {
	for _, r := range s.rings {
		s.readRing(r, f)
	}
}

// readRing reads records: a header (type, misc, size), then for a sample the
// address and the process, in this order.
func (s *sampler) readRing(r perfRing, f func(sample)) {
	const header, sampleSize = 8, 24
	data := r.mem[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&r.page.Data_head), r.page.Data_tail
	for head-tail >= header {
		at := int(tail) & (len(data) - 1)
		n := copy(s.buf[:], data[at:])
		copy(s.buf[n:], data) // the record wraps around the end of the ring
		size := uint64(binary.LittleEndian.Uint16(s.buf[6:]))
		if size < header {
			break
		}
		if binary.LittleEndian.Uint32(s.buf[:]) == unix.PERF_RECORD_SAMPLE && size == sampleSize {
			misc := binary.LittleEndian.Uint16(s.buf[4:])
			f(sample{
				pid:  int(int32(binary.LittleEndian.Uint32(s.buf[16:]))),
				ip:   binary.LittleEndian.Uint64(s.buf[8:]),
				user: misc&unix.PERF_RECORD_MISC_CPUMODE_MASK == unix.PERF_RECORD_MISC_USER,
			})
		}
		tail += size
	}
	atomic.StoreUint64(&r.page.Data_tail, head)
}
