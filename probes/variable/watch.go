package variable

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/debugregister"
	"endoscope/probes/process"
	"endoscope/probes/rights"
	"endoscope/probes/ringbuf"
)

const (
	ringBytes = 1 << 22 // size of the map writes
	// maxWatched is the number of watchpoints of a processor (x86: DR0 to DR3).
	maxWatched = 4
	// maxPasses limits the listings of a process's threads until no new one
	// appears.
	maxPasses = 20
)

// watcher is the kernel side: a program, the ring for writes, and the
// watchpoints that run it.
type watcher struct {
	objects      *ebpf.Collection
	ring         *ringbuf.Buffer
	links        map[int]*links // by process
	lostReported uint64         // lost writes already reported to the sink
	unsure       uint64         // threads that may not be watched
	guarded      []guarding     // all processes so far that have had a guard
	withheld     uint64         // signals that guards have taken, already reported to the sink
	unguarded    uint64         // processes that needed a guard and had none
}

// links is the kernel resources of a watched process.
type links struct {
	pidfd   int               // -1: there is none
	guard   *guard            // nil: there is none
	foreign bool              // since something else traced it
	watched bool              // add has ended
	fds     []int             // links and other file descriptors
	moving  [maxWatched][]int // perf events of watchpoints that follow pointers
	threads map[int]uint64    // entries of the map own: start times, by tid
}

// newWatcher loads the program; it watches nothing yet.
func newWatcher() (*watcher, error) {
	spec, err := bpf.LoadVariable()
	if err != nil {
		return nil, err
	}
	w := &watcher{links: map[int]*links{}}
	if w.objects, err = ebpf.NewCollection(spec); err != nil {
		return nil, needs.Refused(Stream, err)
	}
	if w.ring, err = ringbuf.Open(w.objects.Maps[bpf.VariableMapWrites].FD(), ringBytes); err != nil {
		w.objects.Close()
		return nil, err
	}
	return w, nil
}

var needs = rights.Needs{Ptrace: true, Since: "5.15", Instead: "process_usage"}

// close removes all watchpoints.
func (w *watcher) close() {
	for pid := range w.links {
		w.remove(pid)
	}
	w.ring.Close()
	w.objects.Close()
}

// lost returns the number of writes that found no room in the ring.
func (w *watcher) lost() (n uint64) {
	_ = w.objects.Variables[bpf.VariableVarLost].Get(&n) // mapped memory, or one lookup
	return n
}

// guard gives a process a guard if it needs one, and nothing else traces it now.
func (w *watcher) guard(pid int) {
	kept := w.links[pid]
	if !debugregister.Virtual() || kept == nil || kept.guard != nil || !process.MayTrace(pid) {
		return
	}
	g, err := guardOf(pid)
	if kept.foreign = errors.Is(err, unix.EPERM); err != nil {
		return
	}
	kept.guard = g
	if !slices.ContainsFunc(w.guarded, func(of guarding) bool { return of.guard == g }) {
		w.guarded = append(w.guarded, guarding{g, g.lost.Load()})
	}
}

// guarding is a process with a guard, and how many signals that had taken before.
type guarding struct {
	*guard
	before uint64
}

// taken returns how many signals the guards have taken.
func (w *watcher) taken() (n uint64) {
	for _, g := range w.guarded {
		n += g.lost.Load() - g.before
	}
	return n
}

// readings are the kinds of struct variable in variable.bpf.c.
var readings = map[kind]uint32{cString: 1, goString: 2, cppString: 3}

// add watches the variables of a process in all its threads, and in those that
// they create. It watches all or, on error, none.
func (w *watcher) add(one *subject) (err error) {
	pid := one.process.PID
	defer func() {
		if err != nil {
			w.remove(pid)
		}
	}()
	kept := &links{pidfd: -1, threads: map[int]uint64{}}
	w.links[pid] = kept
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		kept.pidfd, kept.fds = fd, append(kept.fds, fd)
	}
	w.guard(pid)
	if err := w.put(one); err != nil {
		return err
	}
	// Threads created meanwhile inherit the watchpoints of their creator if it
	// has them already; the program tells the two cases apart. None is enabled
	// until all are set.
	var events []watchEvent
	defer func() {
		for _, e := range events {
			if one.watch.points[e.point].parent < 0 {
				unix.Close(e.fd) // the link keeps it open
			}
		}
	}()
	done := kept.threads
	for pass := 0; ; pass++ {
		tids, err := process.Threads(pid)
		if err != nil {
			return fmt.Errorf("watching process %d: %w", pid, err)
		}
		fresh := slices.DeleteFunc(tids, func(tid int) bool {
			start, ok := startOf(pid, tid)
			return !ok || done[tid] == start
		})
		if pass == maxPasses {
			w.unsure += uint64(len(fresh)) // they have watchpoints if their creator had
			break
		}
		if len(fresh) == 0 {
			break
		}
		for _, tid := range fresh {
			start, ok := startOf(pid, tid)
			if !ok {
				continue // the thread has ended
			}
			made, err := w.thread(pid, tid, &one.watch)
			events = append(events, made...)
			if errors.Is(err, unix.ESRCH) {
				continue
			}
			if err != nil {
				return err
			}
			if err := w.objects.Maps[bpf.VariableMapOwn].Put(uint32(tid), start); err != nil {
				return fmt.Errorf("watching process %d: %w", pid, err)
			}
			done[tid] = start
		}
	}
	for _, e := range events {
		if one.watch.at[e.point] == 0 {
			continue
		}
		if err := unix.IoctlSetInt(e.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
			return fmt.Errorf("watching process %d: %w", pid, err)
		}
	}
	kept.watched = true
	return nil
}

// put writes the addresses of a process's watchpoints to the maps.
func (w *watcher) put(one *subject) error {
	if err := w.objects.Maps[bpf.VariableMapProcesses].Put(uint32(one.process.PID), one.watch.process(one.variables)); err != nil {
		return fmt.Errorf("watching process %d: %w", one.process.PID, err)
	}
	return nil
}

// move moves the watchpoints of a process after their pointers, in all its
// threads; the kernel changes inherited ones too (perf_event_modify_attr in
// kernel/events/core.c). Those of a thread created meanwhile may stay where
// they were.
func (w *watcher) move(one *subject, at []uint64) error {
	pid := one.process.PID
	before, _ := process.Threads(pid) // none: it has ended
	was := one.watch.at
	one.watch.at = at
	if err := w.put(one); err != nil {
		return err
	}
	for i, events := range w.links[pid].moving {
		if i >= len(at) || at[i] == was[i] {
			continue
		}
		attr := one.watch.attr(i)
		attr.Bits &^= unix.PerfBitDisabled
		for _, fd := range events {
			var err error
			if at[i] == 0 {
				err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_DISABLE, 0)
			} else if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_MODIFY_ATTRIBUTES, uintptr(unsafe.Pointer(&attr))); errno != 0 {
				err = errno
			}
			if err != nil {
				return fmt.Errorf("watching process %d: %w", pid, err)
			}
		}
	}
	after, _ := process.Threads(pid)
	for _, tid := range after {
		if !slices.Contains(before, tid) {
			w.unsure++
		}
	}
	return nil
}

// trapped reports whether a process that was watched was ended by SIGTRAP.
func (w *watcher) trapped(pid int) bool {
	kept := w.links[pid]
	return kept != nil && kept.pidfd >= 0 && process.ExitSignal(kept.pidfd, pid) == unix.SIGTRAP
}

// remove stops watching a process.
func (w *watcher) remove(pid int) {
	kept := w.links[pid]
	if kept == nil {
		return
	}
	for _, fd := range kept.fds {
		unix.Close(fd)
	}
	for _, events := range kept.moving {
		for _, fd := range events {
			unix.Close(fd)
		}
	}
	switch {
	case kept.guard != nil:
		kept.guard.release()
	case kept.foreign && kept.watched:
		w.unguarded++
	}
	_ = w.objects.Maps[bpf.VariableMapProcesses].Delete(uint32(pid)) // the entry exists
	own := w.objects.Maps[bpf.VariableMapOwn]
	for tid, start := range kept.threads {
		var now uint64 // a thread of another process has the number now if the start differs
		if own.Lookup(uint32(tid), &now) == nil && now == start {
			_ = own.Delete(uint32(tid))
		}
	}
	delete(w.links, pid)
}

// Bits of perf_event_attr that x/sys does not name (include/uapi/linux/perf_event.h).
const (
	inheritThread = 1 << 35 // inherited by threads only, not by forked children; Linux 5.13
	removeOnExec  = 1 << 36 // another program has other variables
)

// thread creates the disabled watchpoints of a thread.
//
// It adds an event that does nothing and is not inherited. If all events of a
// thread were inherited, the kernel would swap them with those of the thread it
// created at a context switch, instead of reprogramming the processor
// (perf_event_context_sched_out in kernel/events/core.c), and the owner of a
// watchpoint would be unknown.
func (w *watcher) thread(pid, tid int, points *watch) (events []watchEvent, err error) {
	dummy := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: uint32(unsafe.Sizeof(unix.PerfEventAttr{})), Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv}
	own, err := unix.PerfEventOpen(&dummy, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return nil, refuseWatch(pid, err)
	}
	kept := w.links[pid]
	kept.fds = append(kept.fds, own)
	for i, p := range points.points {
		attr := points.attr(i)
		fd, err := unix.PerfEventOpen(&attr, tid, -1, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if err != nil {
			return events, refuseWatch(pid, err)
		}
		events = append(events, watchEvent{i, fd})
		if p.parent >= 0 {
			kept.moving[i] = append(kept.moving[i], fd)
		}
		link, err := linkEvent(w.objects.Programs[programs[i]], fd, uint64(tid))
		if err != nil {
			return events, fmt.Errorf("watching process %d: %w", pid, err)
		}
		kept.fds = append(kept.fds, link)
	}
	return events, nil
}

// watchEvent is the perf event of a watchpoint in a thread.
type watchEvent struct{ point, fd int }

// programs are those of variable.bpf.c, by the number of the watchpoint.
var programs = [maxWatched]string{bpf.VariableProgWritten0, bpf.VariableProgWritten1, bpf.VariableProgWritten2, bpf.VariableProgWritten3}

// attr returns the perf attributes of a watchpoint. One without an address is
// set on its first pointer and disabled, so that it keeps its register.
func (w *watch) attr(i int) unix.PerfEventAttr {
	at := w.at[i]
	if at == 0 {
		at = w.root(i)
	}
	return unix.PerfEventAttr{
		Type:    unix.PERF_TYPE_BREAKPOINT,
		Size:    uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample:  1,
		Bits:    unix.PerfBitDisabled | unix.PerfBitInherit | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv | inheritThread | removeOnExec,
		Bp_type: 2, // HW_BREAKPOINT_W
		Ext1:    at,
		Ext2:    uint64(w.points[i].size),
	}
}

func refuseWatch(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EBUSY):
		return plan.Errorf(-1, -1, "process %d has no watchpoint left: a processor has %d, and other queries or a debugger use some", pid, maxWatched).
			WithHint("SAMPLE(%s, 10ms) reads the memory instead, and needs none", Stream)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		return plan.Errorf(-1, -1, "this machine has no watchpoints for process %d: %v", pid, err).
			WithHint("SAMPLE(%s, 10ms) reads the memory instead, and needs none", Stream)
	case errors.Is(err, unix.ESRCH):
		return err // the thread has ended
	case errors.Is(err, unix.EMFILE):
		return plan.Errorf(-1, -1, "process %d has more threads than this process may open files", pid).WithHint("raise its limit (ulimit -n)")
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		return plan.Errorf(-1, -1, "process %d may not be watched: %v", pid, err).WithHint("run as root")
	}
	return fmt.Errorf("watching process %d: %w", pid, err)
}

// linkEvent attaches a program to a perf event; the link keeps the event open.
func linkEvent(prog *ebpf.Program, event int, cookie uint64) (int, error) {
	const (
		linkCreate = 28 // BPF_LINK_CREATE
		perfEvent  = 41 // BPF_PERF_EVENT
	)
	attr := struct {
		program, event, attachType, flags uint32
		cookie                            uint64
	}{uint32(prog.FD()), uint32(event), perfEvent, 0, cookie}
	for {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, linkCreate, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		runtime.KeepAlive(prog)
		switch errno {
		case 0:
			return int(fd), nil // it is close-on-exec by default
		case unix.EINTR, unix.EAGAIN:
		default:
			return -1, errno
		}
	}
}

// startOf returns the start time of a thread, in clock ticks since boot; false
// if it has ended.
func startOf(pid, tid int) (uint64, bool) {
	var s process.Stat
	ok := process.ReadThreadStat(pid, tid, &s)
	return uint64(s.StartTime), ok
}
