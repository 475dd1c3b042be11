package elf

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Limits on what is read from a file or kept of it. The largest real programs
// (browsers, JavaScript engines) stay well below them.
const (
	maxTableBytes = 256 << 20 // of one section read as a whole
	MaxFunctions  = 4 << 20   // symbols, unwind entries or pclntab entries
	maxCodeBytes  = 8 << 20   // of one function
	maxSegments   = 64        // and sections of stubs
)

// Image is an ELF file seen as sections to read and executable segments.
type Image struct {
	Reader  io.ReaderAt
	file    *os.File // which Reader reads; nil: it is none
	Size    int64    // of the file
	ELF     *elf.File
	Load    []segment // everything that is mapped
	Exec    []segment // the executable ones among Load
	stubs   []Span    // sections of linkage stubs (PLT)
	buildID string    // hex
	goBase  uint64    // base of the entries of Go's pclntab

	resident resident
}

// segment is a PT_LOAD, as far as the file backs it.
type segment struct {
	Span
	Offset   uint64
	Writable bool
}

// Span is a range [start, end) of addresses.
type Span struct{ Start, End uint64 }

func (s Span) Contains(addr uint64) bool { return s.Start <= addr && addr < s.End }

// Block is data of the file as it is mapped.
type Block struct {
	Addr uint64
	Data []byte
}

// OpenImage reads the headers of f. It refuses what is not 64-bit x86 code.
func OpenImage(f *os.File) (*Image, error) {
	im, err := readImage(f)
	if err == nil && im.ELF.Type != elf.ET_EXEC && im.ELF.Type != elf.ET_DYN {
		return nil, fmt.Errorf("neither a program nor a shared library (%s)", im.ELF.Type)
	}
	return im, err
}

// readImage is OpenImage for ELF files of any type.
func readImage(f *os.File) (im *Image, err error) {
	defer RecoverAs(&err)
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	// The machine is checked before the rest is parsed, so that the error names
	// it.
	var ident [20]byte
	if _, err := f.ReadAt(ident[:], 0); err != nil || string(ident[:4]) != elf.ELFMAG {
		return nil, errors.New("not an ELF file")
	}
	if elf.Class(ident[elf.EI_CLASS]) != elf.ELFCLASS64 {
		return nil, errors.New("32-bit code cannot be probed")
	}
	var machine elf.Machine
	if elf.Data(ident[elf.EI_DATA]) == elf.ELFDATA2LSB {
		machine = elf.Machine(binary.LittleEndian.Uint16(ident[18:]))
	} else {
		machine = elf.Machine(binary.BigEndian.Uint16(ident[18:]))
	}
	if machine != elf.EM_X86_64 {
		return nil, fmt.Errorf("code for %s cannot be probed, only x86-64", strings.TrimPrefix(machine.String(), "EM_"))
	}
	reader := cutReader{f}
	e, err := elf.NewFile(reader)
	if err != nil {
		return nil, fmt.Errorf("damaged ELF file: %w", err)
	}
	im = &Image{Reader: reader, file: f, Size: st.Size(), ELF: e}
	for _, p := range e.Progs {
		// A segment that extends past the end of the file is cut.
		backed := min(p.Filesz, uint64(max(im.Size-int64(min(p.Off, 1<<62)), 0)))
		if p.Type != elf.PT_LOAD || p.Vaddr+backed < p.Vaddr {
			continue
		}
		s := segment{Span{p.Vaddr, p.Vaddr + backed}, p.Off, p.Flags&elf.PF_W != 0}
		im.Load = append(im.Load, s)
		if p.Flags&elf.PF_X != 0 {
			im.Exec = append(im.Exec, s)
		}
	}
	if len(im.Load) > maxSegments {
		return nil, fmt.Errorf("damaged ELF file: %d segments", len(im.Load))
	}
	for _, s := range e.Sections {
		if len(im.stubs) < maxSegments && (s.Name == ".plt" || strings.HasPrefix(s.Name, ".plt.") || s.Name == ".iplt") {
			im.stubs = append(im.stubs, Span{s.Addr, s.Addr + s.Size})
		}
	}
	im.buildID = im.readBuildID()
	return im, nil
}

// errCut is the error of reading past the end of a file.
var errCut = errors.New("the file is cut short: its headers describe more than it has")

// cutReader reads a file whose headers say how long it is. Its end is an error: io.EOF would
// mean to callers, up to the client, that everything was read.
type cutReader struct{ io.ReaderAt }

func (r cutReader) ReadAt(b []byte, at int64) (int, error) {
	n, err := r.ReaderAt.ReadAt(b, at)
	if err == io.EOF && n < len(b) {
		err = errCut
	}
	return n, err
}

// RecoverAs turns a panic of a third-party parser into an error.
func RecoverAs(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged file: %v", p)
	}
}

// SegmentOf returns the executable segment that holds addr, or nil.
func (im *Image) SegmentOf(addr uint64) *segment {
	for i := range im.Exec {
		if im.Exec[i].Contains(addr) {
			return &im.Exec[i]
		}
	}
	return nil
}

// IsStub reports whether addr lies in a procedure linkage table.
func (im *Image) IsStub(addr uint64) bool {
	for _, s := range im.stubs {
		if s.Contains(addr) {
			return true
		}
	}
	return false
}

// Code reads up to n bytes of code at addr; fewer if the segment ends before.
func (im *Image) Code(addr, n uint64) ([]byte, error) {
	s := im.SegmentOf(addr)
	if s == nil {
		return nil, errors.New("lies in no executable segment of the file")
	}
	b, err := im.bytes(s, addr, n)
	if err != nil {
		return nil, fmt.Errorf("has code that cannot be read: %w", err)
	}
	return b, nil
}

// Data reads up to n bytes that are mapped at addr, nil if there are none.
func (im *Image) Data(addr, n uint64) []byte {
	for i := range im.Load {
		if im.Load[i].Contains(addr) {
			b, _ := im.bytes(&im.Load[i], addr, n)
			return b
		}
	}
	return nil
}

func (im *Image) bytes(s *segment, addr, n uint64) ([]byte, error) {
	if b, ok := im.resident.bytes(addr, min(n, s.End-addr)); ok {
		return b, nil
	}
	b := make([]byte, min(n, s.End-addr, maxCodeBytes))
	if _, err := im.Reader.ReadAt(b, int64(addr-s.Start+s.Offset)); err != nil {
		return nil, err
	}
	return b, nil
}

// Section reads a whole section by name; nil if there is none. The data of
// sections without contents in the file (SHT_NOBITS, as in debug files) is nil.
func (im *Image) Section(name string) ([]byte, *elf.Section, error) {
	s := im.ELF.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL {
		return nil, nil, nil
	}
	b, err := im.ReadSection(s)
	return b, s, err
}

// ReadSection reads a section as stored in the file.
func (im *Image) ReadSection(s *elf.Section) ([]byte, error) {
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		return nil, fmt.Errorf("section %s is compressed", s.Name)
	case s.FileSize > maxTableBytes:
		return nil, fmt.Errorf("section %s has %d bytes, more than %d", s.Name, s.FileSize, maxTableBytes)
	case s.Offset > uint64(im.Size) || s.FileSize > uint64(im.Size)-s.Offset:
		return nil, fmt.Errorf("section %s ends after the file", s.Name)
	}
	b := make([]byte, s.FileSize)
	if _, err := im.Reader.ReadAt(b, int64(s.Offset)); err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return b, nil
}
