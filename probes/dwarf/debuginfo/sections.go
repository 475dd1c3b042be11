package debuginfo

import (
	"debug/elf"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// sections are the sections of debug information that say which source code an address has.
// Of a file that is not compressed they are mapped, so that only what is looked at is read.
type sections struct {
	abbrev, info, text, line, lineText    []byte
	ranges, rangeLists, addresses, texts5 []byte // texts5 is .debug_str_offsets
	mapped                                [][]byte
}

// named returns the sections by their names without .debug_.
func (s *sections) named() map[string]*[]byte {
	return map[string]*[]byte{"abbrev": &s.abbrev, "info": &s.info, "str": &s.text, "line": &s.line, "line_str": &s.lineText,
		"ranges": &s.ranges, "rnglists": &s.rangeLists, "addr": &s.addresses, "str_offsets": &s.texts5}
}

// guard calls do, and turns panics into errors, also that of a page that is no longer in a
// mapped file.
func guard(do func() error) (err error) {
	defer recovered(&err)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return do()
}

// MaxUnpacked limits the compressed sections of a file, unpacked.
const MaxUnpacked = maxDebugBytes

// openSections maps or reads the sections of f, which is read from file. The file may be closed
// afterwards. shared is the supplementary file, or nil. most limits what is unpacked.
func openSections(f *elf.File, file *os.File, shared *elf.File, most uint64) (s *sections, err error) {
	err = guard(func() error {
		if shared != nil {
			s, err = joinedSections(f, shared)
		} else {
			s, err = mapSections(f, file, most)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// joinedSections reads the sections of a file and of its supplementary file.
func joinedSections(f, shared *elf.File) (s *sections, err error) {
	read, size, err := readJoined(f, shared)
	if err != nil {
		return nil, err
	}
	s = &sections{}
	for name, to := range s.named() {
		*to = read[name]
	}
	runtime.AddCleanup(s, memory.release, size)
	return s, nil
}

func mapSections(f *elf.File, file *os.File, most uint64) (*sections, error) {
	s, size := &sections{}, uint64(0)
	all, err := file.Stat()
	if err != nil {
		return nil, err
	}
	found := map[string]*elf.Section{}
	for name := range s.named() {
		sec := Section(f, name)
		if sec == nil {
			continue
		}
		found[name] = sec
		if sec.Open(); !compressed(sec) { // sets Size to the uncompressed one
			continue
		}
		if !fits(sec, all.Size()) {
			return nil, errCut
		}
		if size += sec.Size; sec.Size > most || size > most {
			return nil, fmt.Errorf("has more than %d MiB of compressed debug information", most>>20)
		}
	}
	for name, to := range s.named() {
		sec := found[name]
		if sec == nil {
			continue
		}
		if !compressed(sec) {
			if *to, err = s.mapSection(sec, file, all.Size()); err != nil {
				s.unmap()
				return nil, fmt.Errorf("has debug information that cannot be read: .debug_%s: %w", name, err)
			}
			continue
		}
		if err := Reserve(s, sec.Size); err != nil {
			s.unmap()
			return nil, err
		}
		if *to, err = unpack(sec); err != nil {
			s.unmap()
			return nil, fmt.Errorf("has debug information that cannot be read: .debug_%s: %w", name, err)
		}
	}
	runtime.AddCleanup(s, unmapAll, s.mapped)
	return s, nil
}

// compressed reports whether a section is.
func compressed(sec *elf.Section) bool {
	return sec.Flags&elf.SHF_COMPRESSED != 0 || sec.Name[1] == 'z'
}

// mapSection maps a section of a file of length bytes.
func (s *sections) mapSection(sec *elf.Section, file *os.File, length int64) ([]byte, error) {
	if sec.Offset > uint64(length) || sec.FileSize > uint64(length)-sec.Offset {
		return nil, errCut
	}
	if sec.FileSize == 0 {
		return nil, nil
	}
	page := uint64(os.Getpagesize())
	from := sec.Offset / page * page
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var b []byte
	failed := raw.Control(func(fd uintptr) {
		b, err = unix.Mmap(int(fd), int64(from), int(sec.Offset-from+sec.FileSize), unix.PROT_READ, unix.MAP_PRIVATE)
	})
	if failed != nil {
		return nil, failed
	}
	if err != nil {
		return nil, err
	}
	s.mapped = append(s.mapped, b)
	return b[sec.Offset-from:], nil
}

func (s *sections) unmap() {
	unmapAll(s.mapped)
	s.mapped = nil
}

func unmapAll(all [][]byte) {
	for _, b := range all {
		_ = unix.Munmap(b) // it was mapped
	}
}
