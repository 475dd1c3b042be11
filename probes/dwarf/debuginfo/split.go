package debuginfo

import (
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"runtime"
	"sync"

	"endoscope/probes/dwarf/leb128"
)

// Compilers can put most of a unit into a file beside the object (-gsplit-dwarf; DWARF 5,
// 7.3.2, and GNU's extension of DWARF 4): the program has a skeleton of the unit, the file
// PROG.dwo the rest, in sections whose names end in .dwo. Tools collect such files in a
// package, PROG.dwp, with an index.

// Attributes of GNU's extension of DWARF 4.
const (
	attrGNUDwoName    = dwarf.Attr(0x2130)
	attrGNUDwoID      = dwarf.Attr(0x2131)
	attrGNURangesBase = dwarf.Attr(0x2132)
	attrGNUAddrBase   = dwarf.Attr(0x2133)
)

// Skeleton is a unit whose entries are in another file.
type Skeleton struct {
	Name, Dir string // the .dwo file, and the directory to which the name is relative
	ID        uint64 // of the unit, in both files

	low        uint64 // base of the unit's addresses
	lines      int64  // offset in .debug_line; -1: none
	addresses  uint64 // offset in .debug_addr
	rangesBase uint64 // offset in .debug_ranges (DWARF 4)
}

// Skeleton returns what a unit's entry says about the file that has the rest; nil if the unit
// is whole.
func (d *Info) Skeleton(unit *dwarf.Entry) *Skeleton {
	name, named := unit.Val(dwarf.AttrDwoName).(string)
	if !named {
		name, named = unit.Val(attrGNUDwoName).(string)
	}
	if !named && unit.Tag != dwarf.TagSkeletonUnit {
		return nil
	}
	s := &Skeleton{Name: name, lines: -1}
	s.Dir, _ = unit.Val(dwarf.AttrCompDir).(string)
	s.low, _ = unit.Val(dwarf.AttrLowpc).(uint64)
	if at, ok := unit.Val(dwarf.AttrStmtList).(int64); ok {
		s.lines = at
	}
	offset := func(attrs ...dwarf.Attr) uint64 {
		for _, a := range attrs {
			if n, ok := unit.Val(a).(int64); ok {
				return uint64(n)
			}
		}
		return 0
	}
	s.addresses, s.rangesBase = offset(dwarf.AttrAddrBase, attrGNUAddrBase), offset(attrGNURangesBase)
	s.ID = offset(attrGNUDwoID)
	if u := d.unitAt(unit.Offset); u != nil && u.version >= 5 {
		s.ID = u.id
	}
	return s
}

// SplitFile is a .dwo file or a package of such. It is safe for concurrent use.
type SplitFile struct {
	sections map[string]*elf.Section
	indexes  map[string]*unitIndex // "cu" and "tu"; empty in a .dwo file

	isPackage bool

	mu    sync.Mutex
	whole map[string][]byte                   // sections that have been read as a whole
	units map[string]map[uint64]unitOfSection // of a .dwo file, by kind and signature; nil: not read yet
}

// unitOfSection is a unit of .debug_info.dwo or .debug_types.dwo.
type unitOfSection struct {
	section string
	unit    unit
}

// splitNames are the sections of a .dwo file, without .debug_ and .dwo.
var splitNames = []string{"abbrev", "info", "types", "str", "str_offsets", "loc", "loclists", "rnglists"}

// ErrOtherUnit is returned for a file that does not have the unit.
var ErrOtherUnit = errors.New("is of another build")

// OpenSplit reads the headers of a .dwo file or a package, a file of length bytes. The file must
// stay open while the SplitFile is in use.
func OpenSplit(f *elf.File, length int64) (s *SplitFile, err error) {
	defer recovered(&err)
	s = &SplitFile{sections: map[string]*elf.Section{}, indexes: map[string]*unitIndex{}, whole: map[string][]byte{}}
	size := uint64(0)
	several := map[string][]*elf.Section{}
	for _, sec := range f.Sections {
		for _, name := range splitNames {
			if sec.Type != elf.SHT_NOBITS && (sec.Name == ".debug_"+name+".dwo" || sec.Name == ".zdebug_"+name+".dwo") {
				sec.Open() // sets Size to the uncompressed one
				if !fits(sec, length) {
					return nil, errCut
				}
				if size += sec.Size; sec.Size > maxDebugBytes || size > maxSplitBytes {
					return nil, fmt.Errorf("has more than %d MiB of debug information", maxSplitBytes>>20)
				}
				several[name] = append(several[name], sec)
			}
		}
	}
	for kind, name := range map[string]string{"cu": "cu_index", "tu": "tu_index"} {
		if sec := Section(f, name); sec != nil {
			s.isPackage = true
			if sec.Open(); !fits(sec, length) {
				return nil, errCut
			}
			if sec.Size > maxIndexBytes {
				return nil, fmt.Errorf("has an index of more than %d MiB", maxIndexBytes>>20)
			}
			b, err := s.read(sec.Size, func() ([]byte, error) { return unpack(sec) })
			if err != nil {
				return nil, err
			}
			x, err := readIndex(b)
			if err != nil {
				return nil, err
			}
			s.indexes[kind] = x
		}
	}
	for name, all := range several {
		s.sections[name] = all[0]
		if len(all) == 1 {
			continue
		}
		// GCC emits a section for each type unit.
		if s.isPackage {
			return nil, errIndex
		}
		total := uint64(0)
		for _, sec := range all {
			total += sec.Size
		}
		joined, err := s.read(total, func() ([]byte, error) { return unpackEach(all, total) })
		if err != nil {
			return nil, err
		}
		s.whole[name] = joined
	}
	if s.sections["info"] == nil || s.sections["abbrev"] == nil {
		return nil, errors.New("has no debug information")
	}
	return s, nil
}

// unpackEach reads sections one after the other.
func unpackEach(all []*elf.Section, total uint64) ([]byte, error) {
	joined := make([]byte, 0, total)
	for _, sec := range all {
		b, err := unpack(sec)
		if err != nil {
			return nil, err
		}
		joined = append(joined, b...)
	}
	return joined, nil
}

const (
	maxSplitBytes = 16 << 30  // of all sections of a package, of which few are read
	maxIndexBytes = 256 << 20 // of the index of a package
)

var errCut = errors.New("is cut short: its headers describe more than it has")

// maxRatio is more than debug information is ever compressed by.
const maxRatio = 1 << 8

// fits reports whether a file of length bytes can have a section, so that no small file makes
// much memory be allocated.
func fits(sec *elf.Section, length int64) bool {
	stored := sec.FileSize
	if sec.Offset > uint64(length) || stored > uint64(length)-sec.Offset {
		return false
	}
	return sec.Size <= stored || compressed(sec) && sec.Size/maxRatio <= stored
}

// read reserves memory for as long as the SplitFile is in use.
func (s *SplitFile) read(size uint64, read func() ([]byte, error)) ([]byte, error) {
	if size > maxDebugBytes {
		return nil, fmt.Errorf("has more than %d MiB of debug information in one section", maxDebugBytes>>20)
	}
	if err := Reserve(s, size); err != nil {
		return nil, err
	}
	return read()
}

// Reserve reserves memory for what is kept of debug information, until owner is not referenced.
func Reserve[T any](owner *T, size uint64) error {
	if !memory.reserve(size) {
		return errFull(size)
	}
	runtime.AddCleanup(owner, memory.release, size)
	return nil
}

// section returns a whole section.
func (s *SplitFile) section(name string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.whole[name]; ok {
		return b, nil
	}
	sec := s.sections[name]
	if sec == nil {
		return nil, nil
	}
	b, err := s.read(sec.Size, func() ([]byte, error) { return unpack(sec) })
	if err == nil {
		s.whole[name] = b
	}
	return b, err
}

// part returns the part of a section that belongs to a row of an index; the whole section of a
// .dwo file, which has no rows. spend is called for the bytes that it allocates.
func (s *SplitFile) part(name string, row contributions, spend func(uint64) error) ([]byte, error) {
	sec := s.sections[name]
	if row == nil || sec == nil {
		return s.section(name)
	}
	at, ok := row[name]
	if !ok {
		return nil, nil
	}
	if at.from+at.size > sec.Size {
		return nil, errIndex
	}
	s.mu.Lock()
	b, read := s.whole[name]
	s.mu.Unlock()
	if !read && compressed(sec) {
		var err error
		if b, err = s.section(name); err != nil {
			return nil, err
		}
		read = true
	}
	if read {
		if at.from+at.size > uint64(len(b)) {
			return nil, errIndex
		}
		return b[at.from : at.from+at.size : at.from+at.size], nil
	}
	if err := spend(at.size); err != nil {
		return nil, err
	}
	b = make([]byte, at.size)
	_, err := sec.ReadAt(b, int64(at.from))
	return b, err
}

// splitUnit is a unit with the parts of sections that it refers to.
type splitUnit struct {
	unit
	data, abbrev, offsets, lists, ranges, old []byte // old is .debug_loc.dwo
	// table identifies the unit's abbreviations in the file.
	table uint64
}

// find returns the unit of a kind, "cu" or "tu", with a signature; nil if there is none. part
// reads a part of a section, as the method does.
func (s *SplitFile) find(kind string, signature uint64, part func(name string, row contributions) ([]byte, error)) (*splitUnit, error) {
	row, found, err := s.locate(kind, signature, part)
	if err != nil || found.section == "" {
		return nil, err
	}
	u := &splitUnit{unit: found.unit, table: row["abbrev"].from + found.unit.abbrev}
	for name, to := range map[string]*[]byte{found.section: &u.data, "abbrev": &u.abbrev, "str_offsets": &u.offsets, "loclists": &u.lists, "rnglists": &u.ranges, "loc": &u.old} {
		if u.isType && (name == "loclists" || name == "rnglists" || name == "loc") {
			continue
		}
		if *to, err = part(name, row); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// locate finds a unit. The row is nil in a .dwo file.
func (s *SplitFile) locate(kind string, signature uint64, part func(name string, row contributions) ([]byte, error)) (row contributions, found unitOfSection, err error) {
	if !s.isPackage {
		if err = s.readUnits(part); err == nil {
			s.mu.Lock()
			defer s.mu.Unlock()
			found = s.units[kind][signature]
		}
		return nil, found, err
	}
	x := s.indexes[kind]
	if x == nil {
		return nil, found, nil
	}
	if row = x.find(signature); row == nil {
		return nil, found, nil
	}
	found.section = "info"
	if row["info"].size == 0 && kind == "tu" {
		found.section = "types"
	}
	data, err := part(found.section, row)
	if err != nil {
		return nil, found, err
	}
	if len(data) == 0 {
		return nil, unitOfSection{}, errIndex
	}
	found.unit, err = unitFrom(data, 0, found.section == "types")
	if u := found.unit; err == nil && (u.isType != (kind == "tu") || u.isType && u.signature != signature || u.version >= 5 && !u.isType && u.id != signature) {
		err = errIndex
	}
	return row, found, err
}

// readUnits finds the units of a .dwo file.
func (s *SplitFile) readUnits(part func(name string, row contributions) ([]byte, error)) error {
	s.mu.Lock()
	known := s.units != nil
	s.mu.Unlock()
	if known {
		return nil
	}
	abbrev, err := part("abbrev", nil)
	if err != nil {
		return err
	}
	all := map[string]map[uint64]unitOfSection{"cu": {}, "tu": {}}
	tables := map[uint64]shapes{}
	for _, name := range []string{"info", "types"} {
		data, err := part(name, nil)
		if err != nil {
			return err
		}
		units, err := unitsOf(data, name == "types")
		if err != nil {
			return err
		}
		for _, u := range units {
			switch {
			case u.isType:
				all["tu"][u.signature] = unitOfSection{name, u}
				continue
			case u.version < 5:
				if tables[u.abbrev] == nil {
					if tables[u.abbrev], err = shapesAt(abbrev, u.abbrev); err != nil || len(tables) > maxSplitTables {
						return errAbbrev
					}
				}
				u.id = gnuID(data, u, tables[u.abbrev])
			}
			all["cu"][u.id] = unitOfSection{name, u}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.units = all
	return nil
}

// maxSplitTables limits the tables of abbreviations of the compilation units of a .dwo file.
const maxSplitTables = 64

// gnuID returns DW_AT_GNU_dwo_id of a unit of DWARF 4; 0: it has none.
func gnuID(data []byte, u unit, table shapes) uint64 {
	r := leb128.NewReaderAt(data[:u.end], uint64(u.entries))
	one := table[r.Uleb()]
	if one == nil {
		return 0
	}
	for _, f := range one.fields {
		if dwarf.Attr(f.attr) == attrGNUDwoID && f.form == formData8 {
			return r.Uint(8)
		}
		if !skipForm(&r, f.form, u) {
			break
		}
	}
	return 0
}

// ReadSplit returns the debug information of the unit of a skeleton of d, as if it were not
// split, from a .dwo file or a package. ErrOtherUnit: it is not there.
func (d *Info) ReadSplit(skeleton *Skeleton, file *SplitFile) (out *Info, err error) {
	defer recovered(&err)
	j := &joiner{d: d, skeleton: skeleton, file: file, types: map[uint64]*joined{}, tables: map[uint64]*joinedTable{}, parts: map[partKey][]byte{}}
	defer func() { memory.release(j.reserved) }()
	u, err := file.find("cu", skeleton.ID, j.part)
	if err != nil {
		return nil, err
	}
	if u == nil {
		return nil, ErrOtherUnit
	}
	text, err := file.section("str")
	if err != nil {
		return nil, err
	}
	info, abbrev, err := j.join(u)
	if err != nil {
		return nil, err
	}
	size := uint64(len(info) + len(abbrev))
	for _, b := range [][]byte{u.lists, u.ranges, u.old} {
		size += uint64(len(b))
	}
	if limit := maxRangeBytes["rnglists"]; uint64(len(u.ranges)) > limit {
		return nil, fmt.Errorf("has more than %d MiB of ranges in its debug information", limit>>20)
	}
	data, err := dwarf.New(abbrev, nil, nil, info, d.line, nil, d.ranges, text)
	if err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	if d.lineText != nil {
		if err := data.AddSection(".debug_line_str", d.lineText); err != nil {
			return nil, fmt.Errorf("has damaged debug information: %w", err)
		}
	}
	out = &Info{Data: data, Locations: u.old, LocationLists: u.lists, Addresses: d.Addresses, ranges: d.ranges, rangeLists: u.ranges,
		units: versionsOf(info), split: &splitOrigin{d, file},
		source: &sections{abbrev: abbrev, info: info, text: text, ranges: d.ranges, rangeLists: u.ranges, addresses: d.Addresses}}
	return out, Reserve(out, size)
}

// splitOrigin keeps alive what a split unit was read from.
type splitOrigin struct {
	d    *Info
	file *SplitFile
}

// headerOf returns the length of the header of a table of .debug_str_offsets.dwo,
// .debug_loclists.dwo or .debug_rnglists.dwo (DWARF 5, 7.26 to 7.29): n bytes after the
// length, which DWARF 4 and early versions of GCC do not have.
func headerOf(b []byte, n int) (length int, wide bool) {
	r := leb128.NewReader(b)
	size := r.Uint(4)
	if size == 0xffffffff {
		size, wide = r.Uint(8), true
	}
	at := r.Pos()
	if version := r.Uint(2); r.Failed() || version != 5 || size > uint64(len(b)-at) || r.Len() < n-2 {
		return 0, false
	}
	return at + n, wide
}

// entryOf returns entry i of a table of offsets of 4 or 8 bytes after a header.
func entryOf(b []byte, header int, wide bool, i uint64) (uint64, bool) {
	width := 4
	if wide {
		width = 8
	}
	if i > uint64(len(b)) {
		return 0, false
	}
	r := leb128.NewReaderAt(b, uint64(header)+i*uint64(width))
	return r.Uint(width), !r.Failed()
}
