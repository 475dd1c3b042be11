package process

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// History records the executable mappings of processes, including ended ones:
// stacks of a program that runs for a millisecond are symbolised later. It
// receives the records of all processes of the machine.
type History struct {
	watch *MapWatch
	// contained: processes are noted by ContainerOf as they start.
	contained atomic.Bool

	mu         sync.Mutex
	executions map[int][]executed // by pid, in the order of time
	ended      []int              // pids in order of their end
}

// executed is one program that a process executed.
type executed struct {
	since int64     // boot clock
	exe   string    // path; "": unknown
	text  []Mapping // by address
	ended bool      // the process has ended, or executed another program
}

const (
	maxEnded    = 1024 // ended processes kept
	maxExecuted = 8    // programs kept per process
)

// WatchHistory starts recording. Processes that run already are unknown until
// Know.
func WatchHistory() (*History, error) {
	h := &History{executions: map[int][]executed{}}
	watch, err := watchRecords(true, func() {}, h.record, func(uint64) {}) // a possible reason why a process is unknown
	if err != nil {
		return nil, err
	}
	h.watch = watch
	return h, nil
}

// Close stops recording.
func (h *History) Close() { h.watch.Close() }

// ReadProcess reads the mappings of a running process.
func (h *History) ReadProcess(pid int) {
	text, err := Text(pid)
	if err != nil || len(text) == 0 {
		return
	}
	exe, _ := readExe(pid)
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.last(pid); last != nil {
		last.text = text
		if exe != "" {
			last.exe = exe
		}
	} else {
		h.executions[pid] = []executed{{text: text, exe: exe}}
	}
}

// RecordContainers makes ContainerOf know the containers of processes that start from now on,
// also when they have ended.
func (h *History) RecordContainers() { h.contained.Store(true) }

// noteContainer handles the start of a process, and of a program in it: processes begin in the
// container of their parent, and a container's first one moves there before it executes its
// program.
func (h *History) noteContainer(r *mapRecord) {
	if !h.contained.Load() || len(r.body) < 8 {
		return
	}
	pid, second := int(int32(binary.NativeEndian.Uint32(r.body))), int(int32(binary.NativeEndian.Uint32(r.body[4:])))
	switch {
	case r.kind == unix.PERF_RECORD_FORK && second != pid:
		containers.inherit(pid, second)
	case r.kind == unix.PERF_RECORD_COMM && r.misc&commOfExec != 0:
		RenewContainer(pid)
		ContainerOf(pid)
	}
}

// MappingsBefore returns the mappings, by address, that a process had when it executed
// the program that it did at a time of the boot clock, and the program's path,
// if it no longer executes that program; otherwise, or if unknown, nothing.
func (h *History) MappingsBefore(pid int, at int64) (text []Mapping, exe string) {
	h.watch.sync()
	h.mu.Lock()
	defer h.mu.Unlock()
	list := h.executions[pid]
	for i := len(list) - 1; i >= 0; i-- {
		if x := list[i]; x.since <= at {
			if !x.ended {
				break
			}
			return slices.Clone(x.text), x.exe
		}
	}
	return nil, ""
}

// last returns the program that a process executes; nil: unknown. The caller
// holds mu.
func (h *History) last(pid int) *executed {
	list := h.executions[pid]
	if len(list) == 0 || list[len(list)-1].ended {
		return nil
	}
	return &list[len(list)-1]
}

// record handles a record of perf_event_open(2).
func (h *History) record(r *mapRecord) {
	u32 := func(at int) int { return int(int32(binary.NativeEndian.Uint32(r.body[at:]))) }
	if len(r.body) < 16 {
		return
	}
	h.noteContainer(r) // without the lock: container runtimes may be asked
	h.mu.Lock()
	defer h.mu.Unlock()
	pid := u32(0)
	switch r.kind {
	case unix.PERF_RECORD_FORK: // pid, parent's pid, tid, parent's tid
		if parent := u32(4); parent != pid {
			h.ended = slices.DeleteFunc(h.ended, func(p int) bool { return p == pid })
			delete(h.executions, pid)
			if p := h.last(parent); p != nil {
				h.executions[pid] = []executed{{since: r.time, exe: p.exe, text: slices.Clone(p.text)}}
			}
		}
	case unix.PERF_RECORD_EXIT: // the same
		last := h.last(pid)
		if pid != u32(8) || last == nil {
			return
		}
		last.ended = true
		h.ended = append(h.ended, pid)
		if len(h.ended) > maxEnded {
			delete(h.executions, h.ended[0])
			h.ended = slices.Delete(h.ended, 0, 1)
		}
	case unix.PERF_RECORD_COMM: // pid, tid, name
		if r.misc&commOfExec == 0 {
			return
		}
		if last := h.last(pid); last != nil {
			last.ended = true
		}
		list := append(h.executions[pid], executed{since: r.time})
		h.executions[pid] = list[max(0, len(list)-maxExecuted):]
	case unix.PERF_RECORD_MMAP2:
		m, ok := parseMapped(r.body)
		if !ok && m.Path != "[vdso]" {
			return
		}
		if last := h.last(pid); last != nil {
			if len(last.text) == 0 { // the first mapping of a program is its executable
				last.exe = m.Path
			}
			last.text = withMapping(last.text, m.Mapping)
		}
	}
}

// withMapping adds a mapping to a list by address, and replaces overlapping
// ones.
func withMapping(text []Mapping, m Mapping) []Mapping {
	text = slices.DeleteFunc(text, func(old Mapping) bool { return old.Start < m.End && m.Start < old.End })
	i, _ := slices.BinarySearchFunc(text, m.Start, func(old Mapping, start uint64) int {
		if old.Start < start {
			return -1
		}
		return 1
	})
	return slices.Insert(text, i, m)
}
