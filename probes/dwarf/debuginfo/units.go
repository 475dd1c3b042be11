package debuginfo

import (
	"errors"

	"endoscope/probes/dwarf/leb128"
)

// unit locates a unit of .debug_info or .debug_types.
type unit struct {
	at      int // offset of its header
	entries int // offset of its first entry
	end     int
	version int
	wide    bool // 64-bit DWARF format
	abbrev  uint64
	address int // size of an address
	// For type units: the type's signature, and the offset of its entry from
	// at.
	isType    bool
	signature uint64
	typeAt    uint64
	id        uint64 // of a skeleton, or of a split unit (DWARF 5)
}

// Kinds of units (DWARF 5, 7.5.1).
const (
	kindType         = 2
	kindSkeleton     = 4
	kindSplitCompile = 5
	kindSplitType    = 6
)

var errUnits = errors.New("has damaged debug information: a unit that does not end")

// unitsOf finds the units of .debug_info, or of .debug_types if types is set.
func unitsOf(b []byte, types bool) (out []unit, err error) {
	for pos := 0; pos < len(b); {
		u, err := unitFrom(b, pos, types)
		if err != nil {
			return nil, err
		}
		if pos = u.end; u.entries > 0 {
			out = append(out, u)
		}
	}
	return out, nil
}

// unitFrom reads the header of the unit at pos; entries is 0 if it is empty.
func unitFrom(b []byte, pos int, types bool) (u unit, err error) {
	r := leb128.NewReaderAt(b, uint64(pos))
	u.at = pos
	length := r.Uint(4)
	if length == 0xffffffff {
		u.wide = true
		length = r.Uint(8)
	}
	if r.Failed() || length > uint64(len(b)-r.Pos()) {
		return u, errUnits
	}
	if u.end = r.Pos() + int(length); length == 0 {
		return u, nil
	}
	u.version = int(r.Uint(2))
	kind := uint64(0)
	if u.version >= 5 {
		kind, u.address = r.Uint(1), int(r.Uint(1))
		u.abbrev = offset(&r, u.wide)
	} else {
		u.abbrev = offset(&r, u.wide)
		u.address = int(r.Uint(1))
	}
	switch {
	case types || kind == kindType || kind == kindSplitType:
		u.isType, u.signature, u.typeAt = true, r.Uint(8), offset(&r, u.wide)
	case kind == kindSkeleton || kind == kindSplitCompile:
		u.id = r.Uint(8)
	}
	if u.entries = r.Pos(); r.Failed() || u.entries > u.end {
		return u, errUnits
	}
	return u, nil
}

// offset reads an offset, in the size of a unit's format.
func offset(r *leb128.Reader, wide bool) uint64 {
	if wide {
		return r.Uint(8)
	}
	return r.Uint(4)
}

// readerAt returns a Reader of data at byte pos.
func readerAt(data []byte, pos int) leb128.Reader { return leb128.NewReaderAt(data, uint64(pos)) }
