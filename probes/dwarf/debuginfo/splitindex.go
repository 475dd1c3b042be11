package debuginfo

import (
	"encoding/binary"
	"errors"

	"endoscope/probes/dwarf/leb128"
)

var errIndex = errors.New("has a damaged index of its units")

// unitIndex is the index of a package (DWARF 5, 7.3.5; version 2 is GNU's, of DWARF 4): a hash
// table of the signatures of units, and the parts of the sections that each unit has.
type unitIndex struct {
	columns []string
	units   uint64
	slots   uint64
	// The tables, each as it is in the file.
	signatures, rows, offsets, sizes []byte
}

// contributions are the parts of sections that belong to a unit.
type contributions map[string]struct{ from, size uint64 }

// columnNames are the sections by their number in an index, by the version of the index.
var columnNames = map[uint64]map[uint64]string{
	2: {1: "info", 2: "types", 3: "abbrev", 5: "loc", 6: "str_offsets"},
	5: {1: "info", 3: "abbrev", 5: "loclists", 6: "str_offsets", 8: "rnglists"},
}

const maxColumns = 16

func readIndex(b []byte) (*unitIndex, error) {
	r := leb128.NewReader(b)
	version := r.Uint(4) & 0xffff // of version 5 two bytes, and two that are reserved
	columns, units, slots := r.Uint(4), r.Uint(4), r.Uint(4)
	names := columnNames[version]
	switch {
	case r.Failed() || columns > maxColumns || slots&(slots-1) != 0:
		return nil, errIndex
	case names == nil:
		return nil, errors.New("has an index of its units of a version that is not known")
	}
	x := &unitIndex{units: units, slots: slots}
	x.signatures, x.rows = r.Bytes(8*slots), r.Bytes(4*slots)
	for range columns {
		x.columns = append(x.columns, names[r.Uint(4)])
	}
	x.offsets, x.sizes = r.Bytes(4*columns*units), r.Bytes(4*columns*units)
	if r.Failed() {
		return nil, errIndex
	}
	return x, nil
}

// find returns the parts of the unit with a signature; nil if there is none.
func (x *unitIndex) find(signature uint64) contributions {
	if x.slots == 0 {
		return nil
	}
	mask := x.slots - 1
	slot, step := signature&mask, signature>>32&mask|1
	for range x.slots {
		row := uint64(binary.LittleEndian.Uint32(x.rows[4*slot:]))
		if row == 0 {
			return nil
		}
		if binary.LittleEndian.Uint64(x.signatures[8*slot:]) == signature {
			if row > x.units {
				return nil
			}
			out := contributions{}
			for i, name := range x.columns {
				if at := 4 * ((row-1)*uint64(len(x.columns)) + uint64(i)); name != "" {
					out[name] = struct{ from, size uint64 }{uint64(binary.LittleEndian.Uint32(x.offsets[at:])), uint64(binary.LittleEndian.Uint32(x.sizes[at:]))}
				}
			}
			return out
		}
		slot = (slot + step) & mask
	}
	return nil
}
