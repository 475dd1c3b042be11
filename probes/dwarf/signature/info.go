package signature

import (
	"cmp"
	"debug/dwarf"
	"errors"
	"fmt"
	"slices"
	"sync"

	"endoscope/probes/dwarf/debuginfo"
	"endoscope/probes/elf"
)

// Info is the debug information of a module, in which functions are looked up.
type Info struct {
	d     *elf.DebugInfo
	mu    sync.Mutex
	units []unitRange
	found map[dwarf.Offset]map[uint64]dwarf.Offset // by unit: subprograms, by the address of their code
	types typeNames                                // nil: not listed yet
	left  int                                      // remaining budget of a look-up, see spend
	// split are the units that have been read from files of their own.
	split     map[dwarf.Offset]splitUnit
	skeletons bool // there are such units
	isPart    bool // it is one of these
}

// splitUnit is a unit whose debug information is in a file of its own.
type splitUnit struct {
	info *Info
	err  error
}

// unitRange is an address range of a unit.
type unitRange struct {
	low, high uint64
	at        dwarf.Offset
}

// Open reads the debug information of a module.
func Open(m *elf.Module) (*Info, error) {
	d, err := m.DebugInfo()
	if err != nil {
		return nil, err
	}
	info, err := d.Derive(func() (any, error) { return open(d) })
	if err != nil {
		return nil, err
	}
	return info.(*Info), nil
}

func open(d *elf.DebugInfo) (*Info, error) {
	info := &Info{d: d, found: map[dwarf.Offset]map[uint64]dwarf.Offset{}}
	if err := info.index(); err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	return info, nil
}

// maxSpent limits what one look-up reads: entries, their attributes, and texts
// by 64 bytes. Types may refer to each other so that a walk takes exponential
// time.
const maxSpent = 1 << 22

// spend reduces the budget of a look-up.
func (f *Info) spend(n int) error {
	if f.left -= n; f.left < 0 {
		return errors.New("has debug information that leads too far")
	}
	return nil
}

// price returns the cost of an entry.
func price(e *dwarf.Entry) int {
	n := 1 + len(e.Field)
	for i := range e.Field {
		switch v := e.Field[i].Val.(type) {
		case string:
			n += len(v) / 64
		case []byte:
			n += len(v) / 64
		}
	}
	return n
}

// maxRangeElements limits the elements of the range lists of all units.
const maxRangeElements = 1 << 24

// maxRanges limits the address ranges of the units of a module.
const maxRanges = 1 << 22

// index reads the address ranges of the units.
func (f *Info) index() (err error) {
	defer recovered(&err)
	f.left = maxRangeElements
	r := f.d.Reader()
	for {
		e, err := r.Next()
		if err != nil {
			return err
		}
		if e == nil {
			break
		}
		if e.Tag == dwarf.TagCompileUnit || e.Tag == dwarf.TagSkeletonUnit {
			ranges, err := f.d.Ranges(e, e, f.spend)
			if err != nil {
				return err
			}
			if len(ranges) > maxRanges-len(f.units) {
				return fmt.Errorf("its units have more than %d ranges", maxRanges)
			}
			f.skeletons = f.skeletons || f.d.Skeleton(e) != nil
			for _, s := range ranges {
				f.units = append(f.units, unitRange{s[0], s[1], e.Offset})
			}
		}
		debuginfo.SkipChildren(r, e)
	}
	slices.SortFunc(f.units, func(a, b unitRange) int { return cmp.Compare(a.low, b.low) })
	return nil
}

// recovered turns a panic of package dwarf into an error.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("has damaged debug information: %v", p)
	}
}

const maxDepth = 64 // of references

// at returns the debug information that has the entries of the unit that contains the code at
// addr: f, or that of the unit's own file.
func (f *Info) at(addr uint64) (*Info, error) {
	if !f.skeletons {
		return f, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = maxSpent
	unit, err := f.unit(addr)
	if err != nil {
		return nil, err
	}
	known, read := f.split[unit.Offset]
	if !read {
		d, err := f.d.Whole(unit)
		if d == f.d {
			return f, nil
		}
		if known.err = err; err == nil {
			known.info, known.err = f.part(d, unit.Offset)
		}
		if f.split == nil {
			f.split = map[dwarf.Offset]splitUnit{}
		}
		f.split[unit.Offset] = known
	}
	return known.info, known.err
}

// part returns the debug information of the unit at an offset, read from the unit's own file.
func (f *Info) part(d *elf.DebugInfo, at dwarf.Offset) (*Info, error) {
	unit, err := d.Reader().Next()
	if err != nil || unit == nil {
		return nil, errDamaged
	}
	own := &Info{d: d, isPart: true, found: map[dwarf.Offset]map[uint64]dwarf.Offset{}}
	for _, u := range f.units {
		if u.at == at {
			own.units = append(own.units, unitRange{u.low, u.high, unit.Offset})
		}
	}
	return own, nil
}

// unit returns the compilation unit that contains the code at addr.
func (f *Info) unit(addr uint64) (*dwarf.Entry, error) {
	i, found := slices.BinarySearchFunc(f.units, addr, func(u unitRange, addr uint64) int { return cmp.Compare(u.low, addr) })
	if !found {
		i--
	}
	// Ranges of units overlap in damaged files only.
	if i < 0 || addr >= f.units[i].high {
		return nil, errors.New("was compiled without debug information")
	}
	return f.entry(f.units[i].at)
}

// entry reads one entry.
func (f *Info) entry(at dwarf.Offset) (*dwarf.Entry, error) {
	r := f.d.Reader()
	r.Seek(at)
	e, err := r.Next()
	if err != nil {
		return nil, fmt.Errorf("has damaged debug information: %w", err)
	}
	if e == nil || e.Tag == 0 {
		return nil, errors.New("has damaged debug information")
	}
	return e, f.spend(price(e))
}

// subprogram returns the function whose code begins at addr.
func (f *Info) subprogram(addr uint64) (unit, e *dwarf.Entry, err error) {
	unit, err = f.unit(addr)
	if err != nil {
		return nil, nil, err
	}
	byEntry := f.found[unit.Offset]
	if byEntry == nil {
		if byEntry, err = f.subprograms(unit); err != nil {
			return nil, nil, err
		}
		f.found[unit.Offset] = byEntry
	}
	at, ok := byEntry[addr]
	if !ok {
		return nil, nil, errors.New("is not in the debug information")
	}
	e, err = f.entry(at)
	return unit, e, err
}

// subprograms returns the functions of a unit, by the start of their code.
func (f *Info) subprograms(unit *dwarf.Entry) (map[uint64]dwarf.Offset, error) {
	out := map[uint64]dwarf.Offset{}
	r := f.d.Reader()
	r.Seek(unit.Offset)
	if _, err := r.Next(); err != nil {
		return nil, err
	}
	for depth := 1; depth > 0; {
		e, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("has damaged debug information: %w", err)
		}
		if e == nil || e.Tag == dwarf.TagCompileUnit {
			break
		}
		switch {
		case e.Tag == 0:
			depth--
			continue
		case e.Tag == dwarf.TagSubprogram:
			if low, ok := f.begins(unit, e); ok {
				if _, have := out[low]; !have {
					out[low] = e.Offset
				}
			}
			debuginfo.SkipChildren(r, e)
			continue
		case e.Children && !holdsFunctions(e.Tag):
			debuginfo.SkipChildren(r, e)
			continue
		}
		if e.Children {
			depth++
		}
	}
	return out, nil
}

// holdsFunctions reports whether functions may be defined within an entry.
func holdsFunctions(t dwarf.Tag) bool {
	switch t {
	case dwarf.TagNamespace, dwarf.TagClassType, dwarf.TagStructType, dwarf.TagUnionType, dwarf.TagModule, dwarf.TagEnumerationType:
		return true
	}
	return false
}

// begins returns the start of a function's code.
func (f *Info) begins(unit, e *dwarf.Entry) (uint64, bool) {
	if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok {
		return low, true
	}
	if e.Val(dwarf.AttrRanges) == nil {
		return 0, false
	}
	ranges, err := f.d.Ranges(unit, e, f.spend)
	if err != nil || len(ranges) == 0 {
		return 0, false
	}
	return ranges[0][0], true
}

// val returns an attribute of an entry, or of its abstract origin or
// specification.
func (f *Info) val(e *dwarf.Entry, a dwarf.Attr) any {
	for range maxDepth {
		if v := e.Val(a); v != nil {
			return v
		}
		at, ok := e.Val(dwarf.AttrAbstractOrigin).(dwarf.Offset)
		if !ok {
			if at, ok = e.Val(dwarf.AttrSpecification).(dwarf.Offset); !ok {
				return nil
			}
		}
		var err error
		if e, err = f.entry(at); err != nil {
			return nil
		}
	}
	return nil
}

func (f *Info) name(e *dwarf.Entry) string {
	s, _ := f.val(e, dwarf.AttrName).(string)
	return s
}

// children returns the direct children of an entry.
func (f *Info) children(e *dwarf.Entry) ([]*dwarf.Entry, error) {
	if !e.Children {
		return nil, nil
	}
	var out []*dwarf.Entry
	r := f.d.Reader()
	r.Seek(e.Offset)
	if _, err := r.Next(); err != nil {
		return nil, err
	}
	for {
		c, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("has damaged debug information: %w", err)
		}
		if c == nil || c.Tag == 0 {
			return out, nil
		}
		out = append(out, c)
		if err := f.spend(price(c) + debuginfo.SkipChildren(r, c)); err != nil {
			return nil, err
		}
	}
}
