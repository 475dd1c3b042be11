package golang

import (
	"debug/dwarf"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"endoscope/probes/dwarf/debuginfo"
)

// Layout is where the runtime of one Go program keeps its goroutines.
type Layout struct {
	allgs, allglen uint64 // addresses in the file
	reasons        uint64 // address of runtime.waitReasonStrings
	reasonCount    int

	size uint64 // size of runtime.g
	// Offsets in runtime.g.
	goid, status, reason         uint64
	stackLow, stackHigh          uint64
	schedPC, schedSP, schedFrame uint64

	current Current
}

// Current says where the goroutine of a thread is, while the thread executes code of the runtime
// or of C for it: a g of the runtime refers to the thread's m, and that to the goroutine's g.
type Current struct {
	M, G uint32 // offsets in runtime.g and runtime.m; G is 0 if they are not known
}

// Current returns where the goroutine of a thread is.
func (l *Layout) Current() Current { return l.current }

// ErrNoDebugInformation is returned for stripped programs.
var ErrNoDebugInformation = errors.New("it has no debug information")

// maxGSize limits runtime.g, which has about 450 bytes.
const maxGSize = 4096

// ReadLayout reads the layout from the debug information of a program.
func ReadLayout(file io.ReaderAt) (l *Layout, err error) {
	defer func() { // debug/elf and debug/dwarf may panic on damaged files
		if p := recover(); p != nil {
			l, err = nil, fmt.Errorf("damaged debug information: %v", p)
		}
	}()
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	l = &Layout{}
	if err := l.readSymbols(f); err != nil {
		return nil, err
	}
	data, err := debuginfo.Read(f)
	if err != nil {
		return nil, ErrNoDebugInformation
	}
	if err := l.readTypes(f, data.Data); err != nil {
		return nil, err
	}
	return l, nil
}

// readSymbols finds the runtime's variables.
func (l *Layout) readSymbols(f *elf.File) error {
	symbols, err := f.Symbols()
	if err != nil {
		return ErrNoDebugInformation
	}
	for _, s := range symbols {
		switch s.Name {
		case "runtime.allgs":
			l.allgs = s.Value
		case "runtime.allglen":
			l.allglen = s.Value
		case "runtime.waitReasonStrings":
			l.reasons, l.reasonCount = s.Value, int(min(s.Size/16, 256))
		}
	}
	if l.allgs == 0 || l.allglen == 0 {
		return ErrNoDebugInformation
	}
	return nil
}

// readTypes finds type g, which the linker puts into one of the runtime's
// compilation units. The others, most of the data, are skipped by their
// lengths.
func (l *Layout) readTypes(f *elf.File, data *dwarf.Data) error {
	section := f.Section(".debug_info")
	if section == nil {
		section = f.Section(".zdebug_info")
	}
	if section == nil || section.Size > maxInfo {
		return ErrNoDebugInformation
	}
	info, err := section.Data()
	if err != nil {
		return ErrNoDebugInformation
	}
	for at := 0; at+12 <= len(info); {
		length := uint64(binary.LittleEndian.Uint32(info[at:]))
		if length > uint64(len(info)-at-4) || length < 8 { // also rejects the 64-bit format, which Go does not write
			return ErrNoDebugInformation
		}
		header := 11 // length, version, abbreviations, size of addresses
		if version := binary.LittleEndian.Uint16(info[at+4:]); version >= 5 {
			header = 12 // and the kind of unit
		}
		found, err := l.readUnit(data, dwarf.Offset(at+header))
		if err != nil || found {
			return err
		}
		at += 4 + int(length)
	}
	return ErrNoDebugInformation
}

// maxInfo limits the debug information of a program that is read.
const maxInfo = 512 << 20

// readUnit searches for type g in the unit whose first entry is at an offset.
func (l *Layout) readUnit(data *dwarf.Data, at dwarf.Offset) (found bool, err error) {
	r := data.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err != nil || e == nil {
		return false, err
	}
	if name, _ := e.Val(dwarf.AttrName).(string); e.Tag != dwarf.TagCompileUnit || name != "runtime" {
		return false, nil
	}
	for {
		e, err := r.Next()
		if err != nil || e == nil || e.Tag == dwarf.TagCompileUnit {
			return false, err
		}
		if name, _ := e.Val(dwarf.AttrName).(string); e.Tag == dwarf.TagStructType && name == "runtime.g" {
			t, err := debuginfo.ReadType(data, e.Offset)
			if err != nil {
				return false, err
			}
			return true, l.readG(t)
		}
		if e.Children {
			debuginfo.SkipChildren(r, e)
		}
	}
}

func (l *Layout) readG(t dwarf.Type) error {
	l.size = uint64(t.Size())
	if l.size == 0 || l.size > maxGSize {
		return fmt.Errorf("type runtime.g has %d bytes", l.size)
	}
	for _, f := range []struct {
		to    *uint64
		path  []string
		bytes uint64
	}{
		{&l.goid, []string{"goid"}, 8},
		{&l.status, []string{"atomicstatus"}, 4},
		{&l.reason, []string{"waitreason"}, 1},
		{&l.stackLow, []string{"stack", "lo"}, 8},
		{&l.stackHigh, []string{"stack", "hi"}, 8},
		{&l.schedPC, []string{"sched", "pc"}, 8},
		{&l.schedSP, []string{"sched", "sp"}, 8},
		{&l.schedFrame, []string{"sched", "bp"}, 8},
	} {
		at, ok := offsetOf(t, f.path)
		if !ok || at+f.bytes > l.size {
			return fmt.Errorf("type runtime.g is of a version of Go that is not known: it has no %v", f.path)
		}
		*f.to = at
	}
	if m := fieldOf(t, "m"); m != nil {
		if p, ok := m.Type.(*dwarf.PtrType); ok {
			if g, ok := offsetOf(p.Type, []string{"curg"}); ok {
				l.current = Current{M: uint32(m.ByteOffset), G: uint32(g)}
			}
		}
	}
	return nil
}

// offsetOf returns the offset of a nested field of a struct.
func offsetOf(t dwarf.Type, path []string) (offset uint64, ok bool) {
	for _, name := range path {
		f := fieldOf(t, name)
		if f == nil {
			return 0, false
		}
		offset, t = offset+uint64(f.ByteOffset), f.Type
	}
	return offset, true
}

// fieldOf returns a field of a struct, nil if it has none of that name.
func fieldOf(t dwarf.Type, name string) *dwarf.StructField {
	for {
		def, is := t.(*dwarf.TypedefType)
		if !is {
			break
		}
		t = def.Type
	}
	if s, is := t.(*dwarf.StructType); is {
		for _, f := range s.Field {
			if f.Name == name && f.ByteOffset >= 0 {
				return f
			}
		}
	}
	return nil
}
