package process

import (
	"encoding/binary"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// History knows what processes have mapped as code, also when they have ended: the stacks
// of a program that runs for a millisecond are looked at later. It hears of all processes
// of the machine that come, and their ends.
type History struct {
	watch *MapWatch

	mu    sync.Mutex
	text  map[int][]Mapping // by pid and then address, of the program that is executed
	ended []int             // in order
}

// maxEnded is how many processes are remembered that have ended.
const maxEnded = 1024

// WatchHistory begins to listen. Of processes that run already it knows what is said by
// Know.
func WatchHistory() (*History, error) {
	h := &History{text: map[int][]Mapping{}}
	var err error
	h.watch, err = watchRecords(true, func() {}, h.note, func(uint64) {}) // which may be why one is not known
	return h, err
}

// Close ends it.
func (h *History) Close() { h.watch.Close() }

// Know looks at a process that runs.
func (h *History) Know(pid int) {
	text, err := Text(pid)
	if err != nil || len(text) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text[pid] = text
}

// Text is what is known of a process, by address, as Text has it while the process runs.
func (h *History) Text(pid int) []Mapping {
	h.watch.sync()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.text[pid])
}

// note takes in a record of perf_event_open(2).
func (h *History) note(r *mapRecord) {
	u32 := func(at int) int { return int(int32(binary.NativeEndian.Uint32(r.body[at:]))) }
	if len(r.body) < 16 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	pid := u32(0)
	switch r.kind {
	case unix.PERF_RECORD_FORK: // pid, parent's pid, tid, parent's tid
		if parent := u32(4); parent != pid {
			h.ended = slices.DeleteFunc(h.ended, func(p int) bool { return p == pid })
			h.set(pid, slices.Clone(h.text[parent]))
		}
	case unix.PERF_RECORD_EXIT: // the same
		if pid == u32(8) && h.text[pid] != nil {
			h.ended = append(h.ended, pid)
		}
		if len(h.ended) > maxEnded {
			delete(h.text, h.ended[0])
			h.ended = slices.Delete(h.ended, 0, 1)
		}
	case unix.PERF_RECORD_COMM: // pid, tid, name
		if r.misc&commOfExec != 0 {
			h.set(pid, nil)
		}
	case unix.PERF_RECORD_MMAP2:
		if m, ok := parseMapped(r.body); ok || m.Path == "[vdso]" {
			h.set(pid, withMapping(h.text[pid], m.Mapping))
		}
	}
}

// set notes what a process has mapped. mu is held.
func (h *History) set(pid int, text []Mapping) {
	if len(text) == 0 {
		delete(h.text, pid)
	} else {
		h.text[pid] = text
	}
}

// withMapping adds a mapping to a list by address, in the place of what was there.
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
