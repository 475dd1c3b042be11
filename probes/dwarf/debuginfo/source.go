package debuginfo

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
)

// Source says which source code the addresses of a file belong to. Nothing is read before it is
// asked for, and only of the units that the addresses lie in. It is safe for concurrent use.
type Source struct {
	split func(*Info, *Skeleton) (*Info, error)

	mu       sync.Mutex
	sections *sections
	units    []*codeUnit // in the order of .debug_info
	ranges   []codeRange // of all units, by low
	tables   map[uint64][]*shape
	kept     int // rows and functions that units keep
	spent    int
	scratch  [][2]uint64
	parts    int   // units in files of their own that were read
	failed   error // why something could not be read
	info     *Info // of a unit that is split: keeps alive what the sections are of
}

// codeUnit is a compilation unit.
type codeUnit struct {
	unit
	addressBase, textBase, rangeBase uint64
	low                              uint64 // base of its range lists
	lines                            uint64 // offset of its line program
	hasLines                         bool
	dir                              textRef
	// Of a unit that is split: where its entries are.
	skeleton  bool
	dwoName   textRef
	dwoID     uint64
	gnuRanges uint64
	part      *Source
	partErr   error

	program   *lineProgram // nil: not read yet, or damaged
	sequences []sequence   // nil: not read yet
	functions *unitFunctions
}

// codeRange is a range of addresses of a unit.
type codeRange struct {
	low, high uint64
	unit      *codeUnit
}

// OpenSource prepares reading the debug information of f, which is read from file; the file may
// be closed afterwards. shared is the supplementary file to which it refers, or nil. split reads
// a unit that is in a file of its own. Compressed sections are unpacked if they have at most most
// bytes, MaxUnpacked or less.
func OpenSource(f *elf.File, file *os.File, shared *elf.File, most uint64, split func(*Info, *Skeleton) (*Info, error)) (*Source, error) {
	s, err := openSections(f, file, shared, most)
	if err != nil {
		return nil, err
	}
	src := &Source{sections: s, split: split, tables: map[uint64][]*shape{}}
	if err := guard(src.index); err != nil {
		return nil, err
	}
	return src, nil
}

// Limits on what is kept of one file.
const (
	maxCodeRanges = 1 << 22 // of the units
	maxKept       = 1 << 20 // rows of line tables, and functions; beyond it they are read again
	maxRows       = 1 << 22 // of one line table
	maxTables     = 1 << 7  // tables of abbreviations
	maxLookUp     = 1 << 26 // entries and elements of lists read by one look-up
	costOfShape   = 8       // of an abbreviation, in entries
)

// errFar ends all look-ups of a file: each would take as long.
var errFar = errors.New("has debug information that leads too far")

// spend limits what one look-up reads.
func (s *Source) spend(n int) error {
	if s.spent += n; s.spent > maxLookUp {
		return errFar
	}
	return nil
}

// index reads the first entry of each unit.
func (s *Source) index() error {
	all, err := unitsOf(s.sections.info, false)
	if err != nil {
		return err
	}
	for _, u := range all {
		if u.isType || u.version < 2 || u.version > 5 {
			continue
		}
		one, err := s.indexUnit(u)
		if err != nil {
			return err
		}
		s.units = append(s.units, one)
	}
	slices.SortStableFunc(s.ranges, func(a, b codeRange) int { return cmp.Compare(a.low, b.low) })
	s.ranges = slices.Clip(s.ranges)
	return nil
}

func wantAll(*shape) bool { return true }

func (s *Source) indexUnit(u unit) (*codeUnit, error) {
	one := &codeUnit{unit: u}
	r := entryReader{s: s.sections, u: one, r: readerAt(s.sections.info[:u.end], u.entries)}
	first := r.r
	table, err := shapesUntil(s.sections.abbrev, u.abbrev, first.Uleb())
	if err != nil {
		return nil, err
	}
	if err := s.spend(costOfShape * len(table)); err != nil {
		return nil, err
	}
	if r.shapes, err = table.dense(); err != nil {
		return nil, err
	}
	var e entry
	if ok, err := r.next(&e, wantAll); err != nil || !ok {
		return one, err
	}
	one.addressBase, one.textBase, one.rangeBase = e.addressBase, e.textBase, e.rangeBase
	one.lines, one.hasLines, one.dir = e.lines, e.hasLines, e.dir
	if e.hasLow {
		one.low = e.low
	}
	one.skeleton, one.dwoName, one.dwoID, one.gnuRanges = e.dwoName.form != 0 || e.tag == tagSkeleton, e.dwoName, e.dwoID, e.gnuRanges
	if u.version >= 5 {
		one.dwoID = u.id
	}
	ranges, err := s.codeOf(one, &e)
	if err != nil {
		return nil, err
	}
	if len(ranges) > maxCodeRanges-len(s.ranges) {
		return nil, fmt.Errorf("has units with more than %d ranges", maxCodeRanges)
	}
	for _, at := range ranges {
		s.ranges = append(s.ranges, codeRange{at[0], at[1], one})
	}
	return one, nil
}

// rangesOf appends the ranges of an entry's code to out, without those that are not in the
// program: linkers give code that they leave out the address 0, 1, or one that is negative.
func (s *sections) rangesOf(u *codeUnit, e *entry, spend func(int) error, out [][2]uint64) ([][2]uint64, error) {
	list := rangeReader{spend: spend, base: u.low, out: out}
	if e.hasLow && e.hasHigh {
		list.add(e.low, e.high)
	}
	if e.hasRanges {
		list.address = func(i uint64) uint64 { return s.address(u.addressBase, i) }
		at, err := e.ranges, error(nil)
		switch {
		case u.version < 5:
			err = list.list(readerAt(s.ranges, int(at)))
		case e.indexed:
			width := 4
			if u.wide {
				width = 8
			}
			table := readerAt(s.rangeLists, int(u.rangeBase))
			table.Skip(at * uint64(width))
			at = u.rangeBase + table.Uint(width)
			fallthrough
		default:
			err = list.list5(readerAt(s.rangeLists, int(at)))
		}
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(list.out, func(r [2]uint64) bool { return r[0] <= 1 || int64(r[0]) < 0 || r[1] <= r[0] }), nil
}

// unitAt returns the unit that has the code at an address; nil if there is none.
func (s *Source) unitAt(addr uint64) *codeUnit {
	i, found := slices.BinarySearchFunc(s.ranges, addr, func(r codeRange, addr uint64) int { return cmp.Compare(r.low, addr) })
	if !found {
		i--
	}
	if i < 0 || addr >= s.ranges[i].high {
		return nil
	}
	return s.ranges[i].unit
}
