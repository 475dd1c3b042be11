package symbols

import "encoding/binary"

// DW_EH_PE pointer encodings (Linux Standard Base, 10.5.1).
const (
	peFormat   = 0x0f
	peRelative = 0x70
	pePCRel    = 0x10
	peIndirect = 0x80
	peOmit     = 0xff
)

// frameReader reads the primitive forms of an unwind table. Once bad, it reads
// zeros.
type frameReader struct {
	b   []byte
	end uint64 // the address of the byte behind b
	bad bool
}

func (r *frameReader) skip(n uint64) {
	if n > uint64(len(r.b)) {
		r.bad, n = true, uint64(len(r.b))
	}
	r.b = r.b[n:]
}

func (r *frameReader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

// uint reads a little-endian integer of n bytes.
func (r *frameReader) uint(n int) uint64 {
	var b [8]byte
	if copy(b[:n], r.b) < n {
		r.bad = true
		return 0
	}
	r.skip(uint64(n))
	return binary.LittleEndian.Uint64(b[:])
}

func (r *frameReader) uleb() uint64 {
	if b := r.b; len(b) > 0 && b[0] < 0x80 { // nearly always
		r.b = b[1:]
		return uint64(b[0])
	}
	return r.longULEB()
}

//go:noinline
func (r *frameReader) longULEB() (v uint64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if shift < 64 {
			v |= uint64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			return v
		}
	}
}

func (r *frameReader) sleb() (v int64) {
	for shift := 0; ; shift += 7 {
		b := r.byte()
		if shift < 64 {
			v |= int64(b&0x7f) << shift
		}
		if b&0x80 == 0 {
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
}

func (r *frameReader) cstring() string {
	for i, b := range r.b {
		if b == 0 {
			s := string(r.b[:i])
			r.skip(uint64(i) + 1)
			return s
		}
	}
	r.bad = true
	return ""
}

// pointer reads an address in a DW_EH_PE encoding: absolute or relative to
// its own place, which is all that x86-64 compilers emit.
func (r *frameReader) pointer(encoding byte) uint64 {
	if encoding == peOmit {
		return 0
	}
	at := r.end - uint64(len(r.b))
	var v uint64
	switch encoding & peFormat {
	case 0x00, 0x04, 0x0c:
		v = r.uint(8)
	case 0x01:
		v = r.uleb()
	case 0x02:
		v = r.uint(2)
	case 0x03:
		v = r.uint(4)
	case 0x09:
		v = uint64(r.sleb())
	case 0x0a:
		v = uint64(int16(r.uint(2)))
	case 0x0b:
		v = uint64(int32(r.uint(4)))
	default:
		r.bad = true
	}
	switch encoding & peRelative {
	case 0:
	case pePCRel:
		v += at
	default:
		r.bad = true
	}
	return v
}

// bytes returns the next n bytes, never nil.
func (r *frameReader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad = true
		return []byte{}
	}
	b := r.b[:n:n]
	r.skip(n)
	return b
}
