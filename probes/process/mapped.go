package process

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Mapped is an executable mapping that a process has just made.
type Mapped struct {
	PID  int
	Time int64 // boot clock, ns
	Mapping
	// Program is what the process executed then; the process may have ended
	// since. nil: unknown, or not requested.
	Program *Program
}

// MapWatch reports the executable file mappings that all processes of the
// machine make, by sampling events of the kernel (PERF_RECORD_MMAP2 of
// perf_event_open(2)): a record for each, in a buffer per processor.
type MapWatch struct {
	rings   []mapRing
	wake    int              // eventfd, written to make it read the buffers at once
	deliver func(*mapRecord) // in order
	lost    func(n uint64)
	ended   sync.WaitGroup
	pending []mapRecord // read but not delivered yet

	mu      sync.Mutex
	waiting []chan struct{} // for the buffers to be read
	closing bool
}

// mapRecord is a record of the kernel without its header.
type mapRecord struct {
	kind uint32
	misc uint16
	time int64
	body []byte // without the trailing time
}

// mapPages is the size of a processor's buffer, a power of two: room for about
// 1,000 mappings, those of some 100 programs between two reads. Tests have more.
var mapPages = 32

// mapRing is one processor's event and its records.
type mapRing struct {
	fd   int
	page *unix.PerfEventMmapPage
	mem  []byte
}

// WatchMappings starts calling report for each mapping, and lost with the number
// of records that the kernel had no room for; both from one goroutine, in order
// of time, and never after Close has returned. With programs, Mapped.Program is
// set for ended processes, too; that costs a record for each process and thread
// of the machine that starts or ends.
func WatchMappings(report func(Mapped), lost func(n uint64), withPrograms bool) (*MapWatch, error) {
	var ps programs // nil: not requested
	return watchRecords(withPrograms, func() {
		if withPrograms {
			ps = running()
		}
	}, func(r *mapRecord) {
		ps.note(r)
		if m, ok := parseMapped(r.body); ok && r.kind == unix.PERF_RECORD_MMAP2 {
			m.Time, m.Program = r.time, ps[m.PID]
			report(m)
		}
	}, lost)
}

// watchRecords starts calling heard for each record, with tasks also for starts
// and ends of processes and threads. begin is called before that, when the
// kernel has started recording.
func watchRecords(tasks bool, begin func(), heard func(*mapRecord), lost func(n uint64)) (*MapWatch, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	w := &MapWatch{deliver: heard, lost: lost}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, err
	}
	for cpu := range cpus {
		r, err := openMapRing(cpu, tasks)
		if errors.Is(err, unix.ENODEV) {
			continue // possible, but not present
		}
		if err != nil {
			w.close()
			return nil, fmt.Errorf("the kernel does not report mappings of processes: %w", err)
		}
		w.rings = append(w.rings, r)
	}
	begin()
	w.ended.Go(w.run)
	return w, nil
}

func openMapRing(cpu int, tasks bool) (r mapRing, err error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY,
		Size:        uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample_type: unix.PERF_SAMPLE_TIME,
		Bits:        unix.PerfBitMmap | unix.PerfBitMmap2 | unix.PerfBitSampleIDAll | unix.PerfBitUseClockID | unix.PerfBitWatermark,
		Wakeup:      1, // byte
		Clockid:     unix.CLOCK_BOOTTIME,
	}
	if tasks {
		attr.Bits |= unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitTask
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

// Close stops the watch after it has delivered all earlier mappings.
func (w *MapWatch) Close() {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.readNow()
	w.ended.Wait()
	w.close()
}

// sync waits until all earlier mappings are delivered.
func (w *MapWatch) sync() {
	looked := make(chan struct{})
	w.mu.Lock()
	if w.closing {
		w.mu.Unlock()
		return
	}
	w.waiting = append(w.waiting, looked)
	w.mu.Unlock()
	w.readNow()
	<-looked
}

// readNow makes it read the buffers at once.
func (w *MapWatch) readNow() {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	unix.Write(w.wake, one[:])
}

func (w *MapWatch) close() {
	for _, r := range w.rings {
		unix.Munmap(r.mem)
		unix.Close(r.fd)
	}
	unix.Close(w.wake)
}

func (w *MapWatch) run() {
	defer w.releaseWaiters()
	fds := []unix.PollFd{{Fd: int32(w.wake), Events: unix.POLLIN}}
	for _, r := range w.rings {
		fds = append(fds, unix.PollFd{Fd: int32(r.fd), Events: unix.POLLIN})
	}
	for {
		wait := -1
		if len(w.pending) > 0 {
			wait = 0
		}
		if _, err := unix.Poll(fds, wait); err == unix.EINTR {
			continue
		} else if err != nil {
			return
		}
		if fds[0].Revents == 0 {
			w.deliverSorted()
			continue
		}
		var nudges [8]byte
		unix.Read(w.wake, nudges[:])
		w.mu.Lock()
		waiting, closing := w.waiting, w.closing
		w.waiting = nil
		w.mu.Unlock()
		w.deliverSorted()
		w.deliverSorted() // deliver what was left for the next time
		for _, looked := range waiting {
			close(looked)
		}
		if closing {
			return
		}
	}
}

// releaseWaiters releases all waiting callers of sync.
func (w *MapWatch) releaseWaiters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing = true
	for _, looked := range w.waiting {
		close(looked)
	}
	w.waiting = nil
}

// deliverSorted delivers records in order of time. When a record is found, earlier
// records of the process on other processors are in their buffers already:
// later ones found by the second read are left for the next time.
func (w *MapWatch) deliverSorted() {
	missed := w.readAll()
	var until int64
	for _, r := range w.pending {
		until = max(until, r.time)
	}
	missed += w.readAll()
	slices.SortStableFunc(w.pending, func(a, b mapRecord) int { return cmp.Compare(a.time, b.time) })
	n := 0
	for n < len(w.pending) && w.pending[n].time <= until {
		w.deliver(&w.pending[n])
		n++
	}
	w.pending = slices.Delete(w.pending, 0, n)
	if missed > 0 {
		w.lost(missed)
	}
}

// readAll reads all buffers, and returns the number of lost records.
func (w *MapWatch) readAll() (missed uint64) {
	for i := range w.rings {
		w.rings[i].drain(func(r mapRecord) {
			if r.kind != unix.PERF_RECORD_LOST {
				w.pending = append(w.pending, r)
			} else if len(r.body) >= 16 {
				missed += binary.NativeEndian.Uint64(r.body[8:])
			}
		})
	}
	return missed
}

// drain passes each record in the buffer. They are copied, so that none is
// split at the end of the buffer.
func (r *mapRing) drain(give func(mapRecord)) {
	const header, trailer = 8, 8
	data := r.mem[os.Getpagesize():]
	head, tail := atomic.LoadUint64(&r.page.Data_head), r.page.Data_tail
	for head-tail >= header {
		at := int(tail) & (len(data) - 1)
		size := int(binary.NativeEndian.Uint16(data[at+6:])) // records are aligned to 8 bytes
		if size < header+trailer || uint64(size) > head-tail {
			break
		}
		buf := append(make([]byte, 0, size), data[at:min(at+size, len(data))]...)
		buf = append(buf, data[:size-len(buf)]...)
		tail += uint64(size)
		atomic.StoreUint64(&r.page.Data_tail, tail)
		give(mapRecord{
			kind: binary.NativeEndian.Uint32(buf), misc: binary.NativeEndian.Uint16(buf[4:]),
			time: int64(binary.NativeEndian.Uint64(buf[size-trailer:])), body: buf[header : size-trailer],
		})
	}
}

// parseMapped parses the body of a PERF_RECORD_MMAP2
// (include/uapi/linux/perf_event.h); false if it is not a file's.
func parseMapped(b []byte) (m Mapped, ok bool) {
	const fixed = 64
	if len(b) < fixed {
		return Mapped{}, false
	}
	u32, u64 := binary.NativeEndian.Uint32, binary.NativeEndian.Uint64
	m.PID = int(int32(u32(b)))
	m.Start, m.Offset = u64(b[8:]), u64(b[24:])
	m.End = m.Start + u64(b[16:])
	m.Dev, m.Inode = mkdev(uint64(u32(b[32:])), uint64(u32(b[36:]))), u64(b[40:])
	m.Path = textOf(b[fixed:])
	return m, m.Inode != 0 && len(m.Path) > 0 && m.Path[0] == '/'
}
