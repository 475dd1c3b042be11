package java

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

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

var fieldNames = map[string]int{
	"ObjectMonitor._owner":                monitorOwner,
	"ThreadsSMRSupport._java_thread_list": threadList,
	"ThreadsList._length":                 listLength,
	"ThreadsList._threads":                listThreads,
	"Thread._osthread":                    threadOS,
	"JavaThread._osthread":                threadOS,
	"Thread._stack_base":                  stackBase,
	"JavaThread._stack_base":              stackBase,
	"Thread._stack_size":                  stackSize,
	"JavaThread._stack_size":              stackSize,
	"OSThread._thread_id":                 osThreadID,
}

// Limits on the values accepted from a machine.
const (
	mostFields   = 1 << 15
	longestField = 1 << 10
	mostThreads  = 1 << 16
	longestName  = 64
)

// OpenOwners reads the description of structures from the machine of a process.
func OpenOwners(pid int) (*Owners, error) {
	symbols, err := vmSymbols(pid)
	if err != nil {
		return nil, fmt.Errorf("the Java machine of process %d: %w", pid, err)
	}
	o := &Owners{pid: pid}
	var entries, stride uint64
	var at [5]uint64 // offsets of an entry's fields
	for _, x := range []struct {
		name string
		to   *uint64
	}{
		{"gHotSpotVMStructs", &entries}, {"gHotSpotVMStructEntryArrayStride", &stride},
		{"gHotSpotVMStructEntryTypeNameOffset", &at[0]}, {"gHotSpotVMStructEntryFieldNameOffset", &at[1]},
		{"gHotSpotVMStructEntryIsStaticOffset", &at[2]}, {"gHotSpotVMStructEntryOffsetOffset", &at[3]}, {"gHotSpotVMStructEntryAddressOffset", &at[4]},
	} {
		address, ok := symbols[x.name]
		if ok {
			*x.to, ok = o.word(address)
		}
		if !ok {
			return nil, fmt.Errorf("the Java machine of process %d does not say what lies where: %s is missing", pid, x.name)
		}
	}
	for _, part := range at {
		if stride > longestField || part+8 > stride {
			return nil, fmt.Errorf("what the Java machine of process %d says of itself is not understood", pid)
		}
	}
	found := [numFields]bool{}
	for i := range uint64(mostFields) {
		entry := o.read(entries+i*stride, int(stride))
		if entry == nil {
			break
		}
		word := func(part int) uint64 { return binary.LittleEndian.Uint64(entry[at[part]:]) }
		typeName, fieldName, static, offset, address := word(0), word(1), uint32(word(2)), word(3), word(4)
		if typeName == 0 {
			break
		}
		f, ok := fieldNames[o.text(typeName)+"."+o.text(fieldName)]
		if !ok {
			continue
		}
		found[f] = true
		if o.fields[f] = offset; static != 0 {
			o.fields[f] = address
		}
	}
	for f, ok := range found {
		if !ok {
			return nil, fmt.Errorf("the Java machine of process %d does not say where it has %s", pid, nameOfField(f))
		}
	}
	return o, nil
}

func nameOfField(f int) string {
	for name, n := range fieldNames {
		if n == f {
			return name
		}
	}
	return ""
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
	if n == 0 {
		return b
	}
	got, err := unix.ProcessVMReadv(o.pid, []unix.Iovec{{Base: &b[0], Len: uint64(n)}}, []unix.RemoteIovec{{Base: uintptr(at), Len: n}}, 0)
	if err != nil || got != n {
		return nil
	}
	return b
}

func (o *Owners) word(at uint64) (uint64, bool) {
	var b [8]byte
	n, err := unix.ProcessVMReadv(o.pid, []unix.Iovec{{Base: &b[0], Len: 8}}, []unix.RemoteIovec{{Base: uintptr(at), Len: 8}}, 0)
	return binary.LittleEndian.Uint64(b[:]), err == nil && n == 8
}

// text reads a name, of at most longestName bytes.
func (o *Owners) text(at uint64) string {
	var b [longestName]byte
	n, err := unix.ProcessVMReadv(o.pid, []unix.Iovec{{Base: &b[0], Len: longestName}}, []unix.RemoteIovec{{Base: uintptr(at), Len: longestName}}, 0)
	if err != nil {
		return ""
	}
	for i, c := range b[:n] {
		if c == 0 {
			return string(b[:i])
		}
	}
	return ""
}

// vmSymbols returns the addresses of what the library of a process's machine
// exports for debuggers.
func vmSymbols(pid int) (map[string]uint64, error) {
	mappings, err := process.Modules(pid)
	if err != nil {
		return nil, err
	}
	for _, m := range mappings {
		if filepath.Base(m.Path) != "libjvm.so" {
			continue
		}
		f, err := process.OpenModule(pid, m)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		e, err := elf.NewFile(f)
		if err != nil {
			return nil, err
		}
		defer e.Close()
		bias := uint64(0)
		for _, p := range e.Progs {
			if p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 {
				bias = m.Start - m.Offset - (p.Vaddr - p.Off)
			}
		}
		exported, err := e.DynamicSymbols()
		if err != nil {
			return nil, err
		}
		out := map[string]uint64{}
		for _, s := range exported {
			if len(s.Name) < longestName && s.Section != elf.SHN_UNDEF {
				out[s.Name] = s.Value + bias
			}
		}
		return out, nil
	}
	return nil, errors.New("it has none")
}
