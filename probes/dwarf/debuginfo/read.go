package debuginfo

import (
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
)

// maxDebugBytes limits the bytes read of one file, uncompressed.
const maxDebugBytes = 1 << 30

// Info is the debug information of a file.
type Info struct {
	*dwarf.Data
	// Locations are .debug_loc (DWARF 2 to 4), LocationLists and Addresses .debug_loclists
	// and .debug_addr (DWARF 5); nil where there are none.
	Locations, LocationLists, Addresses []byte

	ranges, rangeLists, line, lineText []byte
	units                              []unitVersion
	split                              *splitOrigin // of a unit that was split; nil: it was not
	source                             *sections    // of such a unit
	sound                              sync.Map     // offsets of line tables of which LineReader has read the header
}

func errFull(size uint64) error {
	return fmt.Errorf("has %d MiB of debug information, which does not fit beside that of other programs that is in use (at most %d MiB in all)", size>>20, memory.limit>>20)
}

// recovered turns a panic of package dwarf or elf into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("has damaged debug information: %v", p)
	}
}

// Section returns a section of debug information by its name without .debug_,
// compressed or not.
func Section(f *elf.File, name string) *elf.Section {
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS && (s.Name == ".debug_"+name || s.Name == ".zdebug_"+name) {
			return s
		}
	}
	return nil
}

// Read reads the debug information of a file.
func Read(f *elf.File) (*Info, error) { return ReadShared(f, nil) }

// ReadShared reads the debug information of a file and of the supplementary
// file that it refers to; shared may be nil.
func ReadShared(f, shared *elf.File) (d *Info, err error) {
	defer recovered(&err)
	read, size, err := readJoined(f, shared)
	if err != nil {
		return nil, err
	}
	if d, err = Parse(read); err != nil {
		memory.release(size)
		return nil, err
	}
	runtime.AddCleanup(d, memory.release, size)
	return d, nil
}

// readJoined reads the sections of a file and of the supplementary file that it refers to;
// shared may be nil. It reserves size bytes, if there is no error.
func readJoined(f, shared *elf.File) (read map[string][]byte, size uint64, err error) {
	own, err := sectionsOf(f, &size)
	if err != nil {
		return nil, 0, err
	}
	var more map[string]*elf.Section
	if shared != nil {
		if more, err = sectionsOf(shared, &size); err != nil {
			return nil, 0, err
		}
	}
	if !memory.reserve(size) {
		return nil, 0, errFull(size)
	}
	defer func() {
		if read == nil {
			memory.release(size)
		}
	}()
	read, err = unpackAll(own)
	if err != nil || shared == nil {
		return read, size, err
	}
	common, err := unpackAll(more)
	if err != nil {
		return nil, 0, err
	}
	read, err = join(read, common)
	return read, size, err
}

// sectionsOf returns the sections to read of a file, and adds their sizes to
// size.
func sectionsOf(f *elf.File, size *uint64) (map[string]*elf.Section, error) {
	found := map[string]*elf.Section{}
	for _, name := range []string{"abbrev", "info", "types", "str", "line", "ranges", "rnglists", "line_str", "str_offsets", "addr", "loc", "loclists"} {
		s := Section(f, name)
		if s == nil {
			continue
		}
		s.Open() // sets Size to the uncompressed one if the name says that it is compressed
		// The size is only claimed by the file so far.
		if *size += s.Size; s.Size > maxDebugBytes || *size > maxDebugBytes {
			return nil, fmt.Errorf("has more than %d MiB of debug information", maxDebugBytes>>20)
		}
		if limit := maxRangeBytes[name]; limit > 0 && s.Size > limit {
			return nil, fmt.Errorf("has more than %d MiB of ranges in its debug information", limit>>20)
		}
		found[name] = s
	}
	return found, nil
}

func unpackAll(found map[string]*elf.Section) (map[string][]byte, error) {
	read := map[string][]byte{}
	for name, s := range found {
		b, err := unpack(s)
		if err != nil {
			return nil, fmt.Errorf("has debug information that cannot be read: .debug_%s: %w", name, err)
		}
		read[name] = b
	}
	return read, nil
}

// Parse returns the debug information of sections, by their names without
// .debug_.
func Parse(sections map[string][]byte) (d *Info, err error) {
	defer recovered(&err)
	abbrev, info, err := joinTypes(sections["abbrev"], sections["info"], sections["types"])
	if err != nil {
		return nil, err
	}
	data, err := dwarf.New(abbrev, nil, nil, info, sections["line"], nil, sections["ranges"], sections["str"])
	if err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	for _, name := range []string{"addr", "line_str", "str_offsets", "rnglists"} {
		if b := sections[name]; b != nil {
			if err := data.AddSection(".debug_"+name, b); err != nil {
				return nil, fmt.Errorf("has damaged debug information: %w", err)
			}
		}
	}
	return &Info{Data: data, Locations: sections["loc"], LocationLists: sections["loclists"], Addresses: sections["addr"],
		ranges: sections["ranges"], rangeLists: sections["rnglists"], line: sections["line"], lineText: sections["line_str"], units: versionsOf(info)}, nil
}

// maxRangeBytes limits the lists of ranges: decoded, a list takes several times
// its size.
var maxRangeBytes = map[string]uint64{"ranges": 128 << 20, "rnglists": 64 << 20}

// firstRead is how many bytes of a section are read before memory is taken for what it
// says it has.
const firstRead = 1 << 20

// unpack reads a section, which may have less than the size that it states.
func unpack(s *elf.Section) ([]byte, error) {
	r := s.Open() // sets Size to the uncompressed one
	if compressed(s) && s.Size/maxRatio > s.FileSize {
		return nil, errCut
	}
	b := make([]byte, min(s.Size, firstRead))
	n, err := io.ReadFull(r, b)
	if rest := s.Size - uint64(n); err == nil && rest > 0 {
		b = slices.Grow(b, int(rest))[:s.Size]
		var more int
		more, err = io.ReadFull(r, b[n:])
		n += more
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // truncated: use what there is
	}
	return b[:n], err
}
