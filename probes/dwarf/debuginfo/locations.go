package debuginfo

import (
	"debug/dwarf"
	"encoding/binary"
	"errors"

	"endoscope/probes/dwarf/leb128"
)

var errLocation = errors.New("has damaged debug information")

// Location returns the location expression of an entry of a unit that is valid
// at pc; nil if there is none. whole reports that it is valid in all of the
// function's code. spend is called for each element of a list.
func (d *Info) Location(unit, e *dwarf.Entry, pc uint64, spend func(n int) error) (expr []byte, whole bool, err error) {
	field := e.AttrField(dwarf.AttrLocation)
	if field == nil {
		return nil, false, nil
	}
	base, _ := unit.Val(dwarf.AttrLowpc).(uint64)
	switch v := field.Val.(type) {
	case []byte:
		return v, true, nil
	case int64:
		if d.LocationLists != nil && d.Locations == nil || d.isVersion5(unit) {
			expr, err = d.findLocation5(unit, uint64(v), base, pc, spend)
		} else {
			expr, err = d.findLocation4(unit, uint64(v), base, pc, spend)
		}
		return expr, false, err
	case uint64: // an index
		start, ok := unit.Val(dwarf.AttrLoclistsBase).(int64)
		if !ok {
			start = 12 // after the header of the only table
		}
		at := uint64(start) + 4*v
		if at+4 > uint64(len(d.LocationLists)) {
			return nil, false, errLocation
		}
		expr, err = d.findLocation5(unit, uint64(start)+uint64(binary.LittleEndian.Uint32(d.LocationLists[at:])), base, pc, spend)
		return expr, false, err
	}
	return nil, false, nil
}

// isVersion5 reports whether a unit is of DWARF 5, as far as its attributes
// show.
func (d *Info) isVersion5(unit *dwarf.Entry) bool {
	return d.LocationLists != nil && (unit.Val(dwarf.AttrLoclistsBase) != nil || unit.Val(dwarf.AttrRnglistsBase) != nil ||
		unit.Val(dwarf.AttrAddrBase) != nil || d.Locations == nil)
}

// findLocation4 searches a list of .debug_loc.
func (d *Info) findLocation4(unit *dwarf.Entry, at, base, pc uint64, spend func(n int) error) ([]byte, error) {
	if d.split != nil {
		return d.findLocationGNU(unit, at, base, pc, spend)
	}
	r := leb128.NewReaderAt(d.Locations, at)
	for r.Len() > 0 {
		if err := spend(1); err != nil {
			return nil, err
		}
		low, high := r.Uint(8), r.Uint(8)
		switch {
		case low == 0 && high == 0:
			return nil, nil
		case low == ^uint64(0):
			base = high
			continue
		}
		expr := r.Bytes(r.Uint(2))
		if !r.Failed() && base+low <= pc && pc < base+high {
			return expr, nil
		}
	}
	return nil, errLocation
}

// findLocation5 searches a list of .debug_loclists (DWARF 5, 7.7.3).
func (d *Info) findLocation5(unit *dwarf.Entry, at, base, pc uint64, spend func(n int) error) ([]byte, error) {
	table, _ := unit.Val(dwarf.AttrAddrBase).(int64)
	address := func(i uint64) uint64 { return d.Address(table, i) }
	r := leb128.NewReaderAt(d.LocationLists, at)
	for r.Len() > 0 {
		if err := spend(1); err != nil {
			return nil, err
		}
		var low, high uint64
		holds := false
		switch r.Byte() {
		case 0: // DW_LLE_end_of_list
			return nil, nil
		case 1: // base_addressx
			base = address(r.Uleb())
			continue
		case 2: // startx_endx
			low, high = address(r.Uleb()), address(r.Uleb())
		case 3: // startx_length
			low = address(r.Uleb())
			high = low + r.Uleb()
		case 4: // offset_pair
			low = base + r.Uleb()
			high = base + r.Uleb()
		case 5: // default_location
			holds = true
		case 6: // base_address
			base = r.Uint(8)
			continue
		case 7: // start_end
			low, high = r.Uint(8), r.Uint(8)
		case 8: // start_length
			low = r.Uint(8)
			high = low + r.Uleb()
		case 9: // GNU_view_pair
			r.Uleb()
			r.Uleb()
			continue
		default:
			return nil, errLocation
		}
		expr := r.Block()
		if !r.Failed() && (holds || low <= pc && pc < high) {
			return expr, nil
		}
	}
	return nil, errLocation
}

// findLocationGNU searches a list of .debug_loc.dwo (GNU's extension of DWARF 4).
func (d *Info) findLocationGNU(unit *dwarf.Entry, at, base, pc uint64, spend func(n int) error) ([]byte, error) {
	table, _ := unit.Val(dwarf.AttrAddrBase).(int64)
	address := func(i uint64) uint64 { return d.Address(table, i) }
	r := leb128.NewReaderAt(d.Locations, at)
	for r.Len() > 0 {
		if err := spend(1); err != nil {
			return nil, err
		}
		var low, high uint64
		switch r.Byte() {
		case 0: // DW_LLE_GNU_end_of_list_entry
			return nil, nil
		case 1: // base_address_selection_entry
			base = address(r.Uleb())
			continue
		case 2: // start_end_entry
			low, high = address(r.Uleb()), address(r.Uleb())
		case 3: // start_length_entry
			low = address(r.Uleb())
			high = low + r.Uint(4)
		case 4: // offset_pair_entry
			low = base + r.Uint(4)
			high = base + r.Uint(4)
		default:
			return nil, errLocation
		}
		expr := r.Bytes(r.Uint(2))
		if !r.Failed() && low <= pc && pc < high {
			return expr, nil
		}
	}
	return nil, errLocation
}
