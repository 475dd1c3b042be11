package debuginfo

import (
	"encoding/binary"
	"errors"
	"slices"
)

// unit is where a unit of .debug_info is, or of .debug_types.
type unit struct {
	at      int // its header
	entries int // its first entry
	end     int
	version int
	wide    bool // of the 64-bit format
	abbrev  uint64
	address int // bytes of an address
	// Of type units: the type's signature, and its entry from at on.
	isType    bool
	signature uint64
	typeAt    uint64
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
		r := reader{b: b, pos: pos}
		u := unit{at: pos}
		length := r.fixed(4)
		if length == 0xffffffff {
			u.wide = true
			length = r.fixed(8)
		}
		if r.bad || length > uint64(len(b)-r.pos) {
			return nil, errUnits
		}
		u.end = r.pos + int(length)
		if pos = u.end; length == 0 {
			continue
		}
		u.version = int(r.fixed(2))
		kind := uint64(0)
		if u.version >= 5 {
			kind, u.address = r.fixed(1), int(r.fixed(1))
			u.abbrev = r.offset(u.wide)
		} else {
			u.abbrev = r.offset(u.wide)
			u.address = int(r.fixed(1))
		}
		switch {
		case types || kind == kindType || kind == kindSplitType:
			u.isType, u.signature, u.typeAt = true, r.fixed(8), r.offset(u.wide)
		case kind == kindSkeleton || kind == kindSplitCompile:
			r.fixed(8)
		}
		if u.entries = r.pos; r.bad || u.entries > u.end {
			return nil, errUnits
		}
		out = append(out, u)
	}
	return out, nil
}

// reader reads numbers of a section.
type reader struct {
	b   []byte
	pos int
	bad bool
}

func (r *reader) fixed(n int) (v uint64) {
	if n < 0 || n > len(r.b)-r.pos {
		r.bad = true
		return 0
	}
	if n == 8 {
		v = binary.LittleEndian.Uint64(r.b[r.pos:])
	} else {
		for i := range n {
			v |= uint64(r.b[r.pos+i]) << (8 * i)
		}
	}
	r.pos += n
	return v
}

func (r *reader) offset(wide bool) uint64 {
	if wide {
		return r.fixed(8)
	}
	return r.fixed(4)
}

func (r *reader) skip(n uint64) {
	if n > uint64(len(r.b)-r.pos) {
		r.bad = true
		return
	}
	r.pos += int(n)
}

// uleb also passes over signed numbers, whose value then is another.
func (r *reader) uleb() (v uint64) {
	for shift := 0; shift < 70; shift += 7 {
		if r.pos >= len(r.b) {
			break
		}
		c := r.b[r.pos]
		r.pos++
		if shift < 64 {
			v |= uint64(c&0x7f) << shift
		}
		if c < 0x80 {
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader) text() {
	n := slices.Index(r.b[r.pos:], 0)
	if n < 0 {
		r.bad = true
		return
	}
	r.pos += n + 1
}
