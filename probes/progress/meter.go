package progress

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxThreads is the number of threads that are counted one by one. Reading each takes a
// microsecond or two.
const maxThreads = 256

// Meter is the progress of some processes. One goroutine uses it.
type Meter struct {
	threads map[int]int  // descriptors of perf events, by thread
	known   map[int]bool // processes
	coarse  map[int]bool // processes with too many threads: by the kernel's clock
	ended   int64        // progress of threads that are not read any more, ns
	last    map[int]int64
}

// Open returns a meter of processes.
func Open(pids []int) (*Meter, error) {
	m := &Meter{threads: map[int]int{}, known: map[int]bool{}, coarse: map[int]bool{}, last: map[int]int64{}}
	if err := m.Add(pids); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// attempts is how often the threads of a process are listed until the list is the same
// before and after they are opened: one that begins in between would be missed.
const attempts = 5

// Add adds processes that are not counted yet. A process that has ended is no error.
func (m *Meter) Add(pids []int) error {
	for _, pid := range pids {
		if m.known[pid] {
			continue
		}
		tids := threadsOf(pid)
		if len(tids) == 0 {
			continue
		}
		m.known[pid] = true
		if len(m.threads)+len(tids) > maxThreads {
			m.coarse[pid] = true
			continue
		}
		for range attempts {
			opened, err := openAll(tids)
			if err != nil {
				return err
			}
			now := threadsOf(pid)
			stable := slices.Equal(now, tids)
			if tids = now; !stable && len(now) > 0 {
				closeAll(opened)
				continue
			}
			maps.Copy(m.threads, opened)
			break
		}
	}
	return nil
}

// threadsOf returns the threads of a process, sorted.
func threadsOf(pid int) (tids []int) {
	list, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
	if err != nil {
		return nil
	}
	for _, t := range list {
		if tid, err := strconv.Atoi(t.Name()); err == nil {
			tids = append(tids, tid)
		}
	}
	slices.Sort(tids)
	return tids
}

// openAll opens the task clocks of threads; those that have ended are left out.
func openAll(tids []int) (map[int]int, error) {
	opened := map[int]int{}
	for _, tid := range tids {
		switch fd, err := open(tid); err {
		case nil:
			opened[tid] = fd
		case unix.ESRCH:
		default:
			closeAll(opened)
			return nil, fmt.Errorf("measuring the progress of thread %d: %w", tid, err)
		}
	}
	return opened, nil
}

func closeAll(fds map[int]int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// open opens the task clock of a thread and of those that it starts.
func open(tid int) (int, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_TASK_CLOCK,
		Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitInherit,
	}
	return unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
}

// Read returns the progress since Open, in ns.
func (m *Meter) Read() (sum int64) {
	sum = m.ended
	var b [8]byte
	for tid, fd := range m.threads {
		n, err := unix.Read(fd, b[:])
		if err == nil && n == len(b) {
			m.last[tid] = int64(binary.NativeEndian.Uint64(b[:]))
		}
		sum += m.last[tid]
	}
	for pid := range m.coarse {
		var t unix.Timespec
		if unix.ClockGettime(clockOf(pid), &t) == nil {
			m.last[-pid] = t.Nano()
		}
		sum += m.last[-pid]
	}
	return sum
}

// clockOf returns the id of a process's CPU-time clock
// (include/linux/posix-timers.h: MAKE_PROCESS_CPUCLOCK).
func clockOf(pid int) int32 {
	const cpuClockSched = 2
	return int32(^pid)<<3 | cpuClockSched
}

// Forget stops reading threads that have ended; their progress counts.
func (m *Meter) Forget(runs func(tid int) bool) {
	for tid, fd := range m.threads {
		if runs(tid) {
			continue
		}
		m.Read()
		m.ended += m.last[tid]
		_ = unix.Close(fd)
		delete(m.threads, tid)
		delete(m.last, tid)
	}
}

// Close ends the measurement.
func (m *Meter) Close() {
	closeAll(m.threads)
	clear(m.threads)
}
