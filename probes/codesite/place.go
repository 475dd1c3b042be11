package codesite

import (
	"bytes"
	stdelf "debug/elf"
	"errors"
	"fmt"

	"endoscope/probes/elf"
)

// Between is the error for an address at which no instruction begins. Begin is where the
// instruction begins that it lies in, Next where the one after it does.
type Between struct {
	Begin, Next uint64
	Insn        string // Intel syntax
}

func (e *Between) Error() string {
	return fmt.Sprintf("lies within the instruction at %#x, `%s`", e.Begin, e.Insn)
}

var (
	errNoFunction = errors.New("is not in the code of a function")
	errMixed      = errors.New("is in code that cannot be told from data")
)

// PlaceAt returns the site of the instruction at an address of any part of a function, and
// where the part begins. The code is decoded from there: a breakpoint within an instruction
// would make the target execute another one. Code is refused in which a branch leads within
// an instruction, as after data that was taken for code. Errors are to be read after the
// address; *Between for an address at which no instruction begins.
func (m Code) PlaceAt(addr uint64) (s Site, start uint64, err error) {
	if m.Image().IsStub(addr) {
		return s, 0, errors.New("is in a linkage stub")
	}
	part, ok := m.partAt(addr)
	if !ok {
		return s, 0, errNoFunction
	}
	if m.Image().SegmentOf(part.Start).Writable {
		return s, 0, errWritable
	}
	if part.End-part.Start > maxBodyBytes {
		return s, 0, fmt.Errorf("is in a function larger than %d KiB", maxBodyBytes>>10)
	}
	for _, sec := range m.Image().ELF.Sections {
		if sec.Addr <= part.Start && part.Start < sec.Addr+sec.Size && sec.Flags&stdelf.SHF_EXECINSTR != 0 {
			part.End = min(part.End, sec.Addr+sec.Size) // padding follows
		}
	}
	if addr >= part.End {
		return s, 0, errNoFunction
	}
	code, err := m.Image().Code(part.Start, part.End-part.Start)
	if err != nil {
		return s, 0, err
	}
	length, err := instructionAt(code, part, addr)
	if err != nil {
		return s, 0, err
	}
	pos := int(addr - part.Start)
	how, err := method(code[pos:], length)
	in, _ := decode(code[pos:])
	if err != nil {
		return s, 0, fmt.Errorf("is at `%s`, which %w", in.syntax(addr), err)
	}
	if how == Nop && pos > 0 { // a call in its place pushes onto what a leaf keeps below its stack pointer
		return s, 0, fmt.Errorf("is at `%s`, a nop that the kernel would replace by a call", in.syntax(addr))
	}
	return Site{Offset: m.OffsetOf(part.Start) + uint64(pos), Addr: addr, Method: how, PastEntry: pos > 0, Bytes: bytes.Clone(code[pos : pos+length])}, part.Start, nil
}

// partAt returns the contiguous code of a function that contains an address: its main part,
// or one that a compiler has put elsewhere.
func (m Code) partAt(addr uint64) (elf.Span, bool) {
	if i, ok := m.FunctionAt(addr); ok {
		f := &m.Entries()[i]
		return elf.Span{Start: f.Addr, End: f.Addr + m.Extent(i)}, true
	}
	e := m.UnwindTable().Find(addr)
	if e == nil || m.Image().SegmentOf(e.Start) == nil {
		return elf.Span{}, false
	}
	return elf.Span{Start: e.Start, End: e.End}, true
}

// instructionAt returns the length of the instruction of a part at an address.
func instructionAt(code []byte, part elf.Span, addr uint64) (length int, err error) {
	begins := make([]bool, len(code))
	var targets []uint64
	var between *Between
	for pos := 0; pos < len(code); {
		at := part.Start + uint64(pos)
		in, err := decode(code[pos:])
		if err != nil {
			if at <= addr {
				return 0, errMixed // where instructions begin after this is not known
			}
			break
		}
		begins[pos] = true
		if to, ok := in.target(at); ok && part.Contains(to) {
			targets = append(targets, to)
		}
		end := at + uint64(in.Len)
		switch {
		case at == addr:
			length = in.Len
		case at < addr && addr < end:
			between = &Between{at, end, in.syntax(at)}
		}
		pos += in.Len
	}
	for _, to := range targets {
		if !begins[to-part.Start] {
			return 0, errMixed
		}
	}
	if between != nil {
		return 0, between
	}
	return length, nil
}
