package unwind

import "endoscope/probes/dwarf/leb128"

// DW_EH_PE pointer encodings (Linux Standard Base, 10.5.1).
const (
	peFormat   = 0x0f
	peRelative = 0x70
	pePCRel    = 0x10
	peIndirect = 0x80
	peOmit     = 0xff
)

// pointer reads an address in a DW_EH_PE encoding: absolute or relative to its
// own place, the only ones that x86-64 compilers emit. end is the address after
// r's last byte.
func pointer(r *leb128.Reader, end uint64, encoding byte) uint64 {
	if encoding == peOmit {
		return 0
	}
	at := end - uint64(r.Len())
	var v uint64
	switch encoding & peFormat {
	case 0x00, 0x04, 0x0c:
		v = r.Uint(8)
	case 0x01:
		v = r.Uleb()
	case 0x02:
		v = r.Uint(2)
	case 0x03:
		v = r.Uint(4)
	case 0x09:
		v = uint64(r.Sleb())
	case 0x0a:
		v = uint64(r.Int(2))
	case 0x0b:
		v = uint64(r.Int(4))
	default:
		r.Fail()
	}
	switch encoding & peRelative {
	case 0:
	case pePCRel:
		v += at
	default:
		r.Fail()
	}
	return v
}
