package java

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"

	"endoscope/probes/process"
)

// Owners finds the thread that holds a monitor of a machine, in the machine's
// memory, by the description that it exports for debuggers (gHotSpotVMStructs:
// src/hotspot/share/runtime/vmStructs.cpp). Nothing is stopped. It is used by
// one goroutine at a time.
type Owners struct {
	pid    int
	fields [numFields]uint64 // offsets; for a static field its address
	buf    []byte
}

// Fields of the machine's structures.
const (
	monitorOwner = iota
	threadList
	listLength
	listThreads
	threadOS
	stackBase
	stackSize
	osThreadID
	numFields
)

// ownerFields are the names of the fields; versions of the machine differ in some.
var ownerFields = [numFields][]string{
	monitorOwner: {"ObjectMonitor::_owner"},
	threadList:   {"ThreadsSMRSupport::_java_thread_list"},
	listLength:   {"ThreadsList::_length"},
	listThreads:  {"ThreadsList::_threads"},
	threadOS:     {"Thread::_osthread", "JavaThread::_osthread"},
	stackBase:    {"Thread::_stack_base", "JavaThread::_stack_base"},
	stackSize:    {"Thread::_stack_size", "JavaThread::_stack_size"},
	osThreadID:   {"OSThread::_thread_id"},
}

// mostThreads limits the threads accepted from a machine.
const mostThreads = 1 << 16

// OpenOwners reads the description of structures from the machine of a process.
func OpenOwners(pid int) (*Owners, error) {
	modules, err := process.Modules(pid)
	if err != nil {
		return nil, err
	}
	library := slices.IndexFunc(modules, func(m process.Mapping) bool { return filepath.Base(m.Path) == Library })
	if library < 0 {
		return nil, fmt.Errorf("process %d has no Java machine", pid)
	}
	m := &memory{pid: pid, pages: map[uint64][]byte{}}
	s, err := m.describe(modules[library])
	if err != nil {
		return nil, err
	}
	o := &Owners{pid: pid}
	for f, names := range ownerFields {
		known := slices.IndexFunc(names, func(name string) bool { _, ok := s.at[name]; return ok })
		if known < 0 {
			return nil, fmt.Errorf("%w: not %s", errNotDescribed, names[0])
		}
		o.fields[f] = s.at[names[known]]
	}
	return o, nil
}

// Of returns the tid, in our namespace, of the thread that holds a monitor at
// some time during the call; false if none does, or it is unknown.
func (o *Owners) Of(monitor uint64) (tid int, ok bool) {
	owner, ok := o.word(monitor + o.fields[monitorOwner])
	if !ok || owner == 0 {
		return 0, false
	}
	list, ok1 := o.word(o.fields[threadList])
	n, ok2 := o.word(list + o.fields[listLength])
	threads, ok3 := o.word(list + o.fields[listThreads])
	if n = uint64(uint32(n)); !ok1 || !ok2 || !ok3 || n > mostThreads {
		return 0, false
	}
	all := o.read(threads, int(8*n))
	if all == nil {
		return 0, false
	}
	all = append([]byte(nil), all...)
	for i := range n {
		thread := binary.LittleEndian.Uint64(all[8*i:])
		if thread != owner {
			// If it was acquired without contention, the owner is an address on
			// the holder's stack.
			base, ok1 := o.word(thread + o.fields[stackBase])
			size, ok2 := o.word(thread + o.fields[stackSize])
			if !ok1 || !ok2 || owner >= base || owner < base-size {
				continue
			}
		}
		os, ok1 := o.word(thread + o.fields[threadOS])
		id, ok2 := o.word(os + o.fields[osThreadID])
		return int(uint32(id)), ok1 && ok2 && uint32(id) != 0
	}
	return 0, false
}

// read reads memory of the machine; nil if part of it is unreadable. The result
// is valid until the next call.
func (o *Owners) read(at uint64, n int) []byte {
	if cap(o.buf) < n {
		o.buf = make([]byte, n)
	}
	b := o.buf[:n]
	if process.ReadMemory(o.pid, b, at) != n {
		return nil
	}
	return b
}

func (o *Owners) word(at uint64) (uint64, bool) {
	var b [8]byte
	n := process.ReadMemory(o.pid, b[:], at)
	return binary.LittleEndian.Uint64(b[:]), n == 8
}
