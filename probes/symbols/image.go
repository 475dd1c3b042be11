package symbols

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Limits on what a file may make us read or keep. The largest real programs
// (browsers, JavaScript engines) stay well below them.
const (
	maxTableBytes = 256 << 20 // of one section read as a whole
	maxFunctions  = 4 << 20   // symbols, unwind entries or pclntab entries
	maxCodeBytes  = 8 << 20   // of one function
	maxSegments   = 64        // and sections of stubs
)

// image is an ELF file seen as sections to read and executable segments.
type image struct {
	r       io.ReaderAt
	size    int64 // of the file
	elf     *elf.File
	load    []segment // everything that is mapped
	exec    []segment // of these, what is executable
	stubs   []span    // sections of linkage stubs (PLT)
	buildID string    // hex
	goBase  uint64    // to which the entries of Go's pclntab are relative

	holding holding
}

// segment is a PT_LOAD, as far as the file backs it.
type segment struct {
	span
	offset   uint64
	writable bool
}

// span is a range [start, end) of addresses.
type span struct{ start, end uint64 }

func (s span) contains(addr uint64) bool { return s.start <= addr && addr < s.end }

// openImage reads the headers of f. It refuses what is not 64-bit x86 code.
func openImage(f *os.File) (*image, error) {
	im, err := readImage(f)
	if err == nil && im.elf.Type != elf.ET_EXEC && im.elf.Type != elf.ET_DYN {
		return nil, fmt.Errorf("neither a program nor a shared library (%s)", im.elf.Type)
	}
	return im, err
}

// readImage is openImage of files of any kind.
func readImage(f *os.File) (im *image, err error) {
	defer recoverAs(&err)
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	// The machine is checked before the rest is parsed, so that the refusal
	// names it.
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
	e, err := elf.NewFile(f)
	if err != nil {
		return nil, fmt.Errorf("damaged ELF file: %w", err)
	}
	im = &image{r: f, size: st.Size(), elf: e}
	for _, p := range e.Progs {
		// A segment that ends past the file is cut where the file ends.
		backed := min(p.Filesz, uint64(max(im.size-int64(min(p.Off, 1<<62)), 0)))
		if p.Type != elf.PT_LOAD || p.Vaddr+backed < p.Vaddr {
			continue
		}
		s := segment{span{p.Vaddr, p.Vaddr + backed}, p.Off, p.Flags&elf.PF_W != 0}
		im.load = append(im.load, s)
		if p.Flags&elf.PF_X != 0 {
			im.exec = append(im.exec, s)
		}
	}
	if len(im.load) > maxSegments {
		return nil, fmt.Errorf("damaged ELF file: %d segments", len(im.load))
	}
	for _, s := range e.Sections {
		if len(im.stubs) < maxSegments && (s.Name == ".plt" || strings.HasPrefix(s.Name, ".plt.") || s.Name == ".iplt") {
			im.stubs = append(im.stubs, span{s.Addr, s.Addr + s.Size})
		}
	}
	im.buildID = im.readBuildID()
	return im, nil
}

// recoverAs turns a panic of a parser that is not ours into an error.
func recoverAs(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("damaged file: %v", p)
	}
}

// segmentOf returns the executable segment that holds addr, or nil.
func (im *image) segmentOf(addr uint64) *segment {
	for i := range im.exec {
		if im.exec[i].contains(addr) {
			return &im.exec[i]
		}
	}
	return nil
}

// isStub reports whether addr lies in a procedure linkage table.
func (im *image) isStub(addr uint64) bool {
	for _, s := range im.stubs {
		if s.contains(addr) {
			return true
		}
	}
	return false
}

// code reads up to n bytes of code at addr; fewer where the segment ends.
func (im *image) code(addr, n uint64) ([]byte, error) {
	s := im.segmentOf(addr)
	if s == nil {
		return nil, errors.New("lies in no executable segment of the file")
	}
	b, err := im.bytes(s, addr, n)
	if err != nil {
		return nil, fmt.Errorf("has code that cannot be read: %w", err)
	}
	return b, nil
}

// data reads up to n bytes that are mapped at addr, nil if there are none.
func (im *image) data(addr, n uint64) []byte {
	for i := range im.load {
		if im.load[i].contains(addr) {
			b, _ := im.bytes(&im.load[i], addr, n)
			return b
		}
	}
	return nil
}

func (im *image) bytes(s *segment, addr, n uint64) ([]byte, error) {
	if b, ok := im.holding.bytes(addr, min(n, s.end-addr)); ok {
		return b, nil
	}
	b := make([]byte, min(n, s.end-addr, maxCodeBytes))
	if _, err := im.r.ReadAt(b, int64(addr-s.start+s.offset)); err != nil {
		return nil, err
	}
	return b, nil
}

// section reads a whole section by name; nil if there is none. The data of
// sections without any in the file (SHT_NOBITS, as in debug files) is nil.
func (im *image) section(name string) ([]byte, *elf.Section, error) {
	s := im.elf.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS || s.Type == elf.SHT_NULL {
		return nil, nil, nil
	}
	b, err := im.read(s)
	return b, s, err
}

// read reads a section as the file has it.
func (im *image) read(s *elf.Section) ([]byte, error) {
	switch {
	case s.Flags&elf.SHF_COMPRESSED != 0:
		return nil, fmt.Errorf("section %s is compressed", s.Name)
	case s.FileSize > maxTableBytes:
		return nil, fmt.Errorf("section %s has %d bytes, more than %d", s.Name, s.FileSize, maxTableBytes)
	case s.Offset > uint64(im.size) || s.FileSize > uint64(im.size)-s.Offset:
		return nil, fmt.Errorf("section %s ends after the file", s.Name)
	}
	b := make([]byte, s.FileSize)
	if _, err := im.r.ReadAt(b, int64(s.Offset)); err != nil {
		return nil, fmt.Errorf("section %s: %w", s.Name, err)
	}
	return b, nil
}

// readBuildID finds the GNU build-id note in the sections or, where they are
// stripped, in the segments.
func (im *image) readBuildID() string {
	for _, s := range im.elf.Sections {
		if s.Type == elf.SHT_NOTE && s.FileSize < 1<<16 {
			if b, err := im.read(s); err == nil {
				if id := buildIDOf(b); id != "" {
					return id
				}
			}
		}
	}
	for _, p := range im.elf.Progs {
		if p.Type == elf.PT_NOTE && p.Filesz < 1<<16 {
			b := make([]byte, p.Filesz)
			if _, err := im.r.ReadAt(b, int64(p.Off)); err == nil {
				if id := buildIDOf(b); id != "" {
					return id
				}
			}
		}
	}
	return ""
}

// buildIDOf returns the hex of the NT_GNU_BUILD_ID note among notes.
func buildIDOf(notes []byte) string {
	const ntGNUBuildID = 3
	le := binary.LittleEndian
	for len(notes) >= 12 {
		name, desc, kind := uint64(le.Uint32(notes)), uint64(le.Uint32(notes[4:])), le.Uint32(notes[8:])
		descAt := 12 + (name+3)&^3
		end := descAt + (desc+3)&^3
		if descAt+desc > uint64(len(notes)) {
			return ""
		}
		if kind == ntGNUBuildID && name == 4 && string(notes[12:15]) == "GNU" && desc <= 64 {
			return hex.EncodeToString(notes[descAt : descAt+desc])
		}
		notes = notes[min(end, uint64(len(notes))):]
	}
	return ""
}
