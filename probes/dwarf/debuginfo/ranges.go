package debuginfo

import (
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"slices"

	"endoscope/probes/dwarf/leb128"
)

var errRanges = errors.New("has damaged debug information: a list of ranges that does not end")

// Ranges returns the address ranges of the code of an entry of a unit. Unlike
// dwarf.Data's Ranges it calls spend for each element of a list: entries may
// share a list as long as the file, so only the caller can limit the total.
func (d *Info) Ranges(unit, e *dwarf.Entry, spend func(n int) error) (out [][2]uint64, err error) {
	if low, ok := e.Val(dwarf.AttrLowpc).(uint64); ok {
		switch high := e.Val(dwarf.AttrHighpc).(type) {
		case uint64:
			out = append(out, [2]uint64{low, high})
		case int64:
			out = append(out, [2]uint64{low, low + uint64(high)})
		}
	}
	var at uint64
	switch v := e.Val(dwarf.AttrRanges).(type) {
	case int64:
		at = uint64(v)
	case uint64:
		at = v
	default:
		return out, nil
	}
	base, ok := unit.Val(dwarf.AttrEntrypc).(uint64)
	if !ok {
		base, _ = unit.Val(dwarf.AttrLowpc).(uint64)
	}
	r := rangeReader{spend: spend, base: base, out: out}
	if d.rangeLists != nil && d.versionAt(unit.Offset) >= 5 {
		if at > uint64(len(d.rangeLists)) {
			return nil, errRanges
		}
		table, _ := unit.Val(dwarf.AttrAddrBase).(int64)
		r.address = func(i uint64) uint64 { return d.Address(table, i) }
		err = r.list5(leb128.NewReaderAt(d.rangeLists, at))
	} else {
		if at > uint64(len(d.ranges)) {
			return nil, errRanges
		}
		err = r.list(leb128.NewReaderAt(d.ranges, at))
	}
	if err != nil {
		return nil, err
	}
	return r.out, nil
}

// Address returns address i of a unit's part of .debug_addr, 0 if there is
// none.
func (d *Info) Address(table int64, i uint64) uint64 {
	if table < 0 || uint64(table) > uint64(len(d.Addresses)) || i >= (uint64(len(d.Addresses))-uint64(table))/8 {
		return 0
	}
	return binary.LittleEndian.Uint64(d.Addresses[uint64(table)+8*i:])
}

// versionAt returns the DWARF version of the unit that contains an entry.
func (d *Info) versionAt(at dwarf.Offset) int {
	if u := d.unitAt(at); u != nil {
		return int(u.version)
	}
	return 0
}

// unitAt returns the unit that contains an entry; nil: none does.
func (d *Info) unitAt(at dwarf.Offset) *unitVersion {
	i, found := slices.BinarySearchFunc(d.units, at, func(u unitVersion, at dwarf.Offset) int { return cmp.Compare(u.at, at) })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return &d.units[i]
}

// unitVersion is the version, and the id, of the unit that begins at an offset.
type unitVersion struct {
	at      dwarf.Offset
	version uint8
	id      uint64
}

func versionsOf(info []byte) []unitVersion {
	units, _ := unitsOf(info, false) // no error: package dwarf has read them
	out := make([]unitVersion, len(units))
	for i, u := range units {
		out[i] = unitVersion{dwarf.Offset(u.at), uint8(u.version), u.id}
	}
	return out
}

// rangeReader reads a list of ranges.
type rangeReader struct {
	spend   func(int) error
	base    uint64
	address func(i uint64) uint64
	out     [][2]uint64
}

func (r *rangeReader) add(low, high uint64) { r.out = append(r.out, [2]uint64{low, high}) }

// list reads one of .debug_ranges (DWARF 4, 2.17.3), which may end with the section.
func (r *rangeReader) list(b leb128.Reader) error {
	for b.Len() > 0 {
		if err := r.spend(1); err != nil {
			return err
		}
		low, high := b.Uint(8), b.Uint(8)
		switch {
		case b.Failed():
			return errRanges
		case low == 0 && high == 0:
			return nil
		case low == ^uint64(0):
			r.base = high
		default:
			r.add(r.base+low, r.base+high)
		}
	}
	return nil
}

// list5 reads one of .debug_rnglists (DWARF 5, 2.17.3 and 7.25).
func (r *rangeReader) list5(b leb128.Reader) error {
	for {
		if err := r.spend(1); err != nil {
			return err
		}
		kind := b.Uint(1)
		if b.Failed() {
			return errRanges
		}
		switch kind {
		case 0: // end_of_list
			return nil
		case 1: // base_addressx
			r.base = r.address(b.Uleb())
		case 2: // startx_endx
			low := r.address(b.Uleb())
			r.add(low, r.address(b.Uleb()))
		case 3: // startx_length
			low := r.address(b.Uleb())
			r.add(low, low+b.Uleb())
		case 4: // offset_pair
			low := r.base + b.Uleb()
			r.add(low, r.base+b.Uleb())
		case 5: // base_address
			r.base = b.Uint(8)
		case 6: // start_end
			low := b.Uint(8)
			r.add(low, b.Uint(8))
		case 7: // start_length
			low := b.Uint(8)
			r.add(low, low+b.Uleb())
		default:
			return errRanges
		}
		if b.Failed() {
			return errRanges
		}
	}
}
