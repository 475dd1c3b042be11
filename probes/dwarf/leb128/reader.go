package leb128

import (
	"bytes"
	"encoding/binary"
)

// Reader reads numbers from bytes of a file, which may be damaged. The first
// read that does not fit fails the reader: it moves to the end, and all further
// reads return zero.
type Reader struct {
	data   []byte
	pos    int
	failed bool
}

// NewReader returns a Reader at the beginning of data.
func NewReader(data []byte) Reader { return Reader{data: data} }

// NewReaderAt returns a Reader of data at byte pos. It has failed if pos is
// outside.
func NewReaderAt(data []byte, pos uint64) Reader {
	r := Reader{data: data}
	r.Skip(pos)
	return r
}

// Pos returns the number of bytes read.
func (r *Reader) Pos() int { return r.pos }

// Len returns the number of bytes left.
func (r *Reader) Len() int { return len(r.data) - r.pos }

// Rest returns the bytes left.
func (r *Reader) Rest() []byte { return r.data[r.pos:] }

// Failed reports whether a read did not fit.
func (r *Reader) Failed() bool { return r.failed }

// Fail makes the reader fail.
func (r *Reader) Fail() { r.failed, r.pos = true, len(r.data) }

// Jump moves the reader n bytes forward or, if n is negative, back.
func (r *Reader) Jump(n int64) {
	if n < -int64(r.pos) || n > int64(r.Len()) {
		r.Fail()
		return
	}
	r.pos += int(n)
}

// Skip moves the reader n bytes forward.
func (r *Reader) Skip(n uint64) {
	if n > uint64(r.Len()) {
		r.Fail()
		return
	}
	r.pos += int(n)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if r.pos >= len(r.data) {
		r.failed = true
		return 0
	}
	b := r.data[r.pos]
	r.pos++
	return b
}

// Uint reads a little-endian integer of n bytes, at most 8.
func (r *Reader) Uint(n int) uint64 {
	if n < 0 || n > 8 || n > r.Len() {
		r.Fail()
		return 0
	}
	var b [8]byte
	copy(b[:n], r.data[r.pos:])
	r.pos += n
	return binary.LittleEndian.Uint64(b[:])
}

// Int is Uint for a signed integer.
func (r *Reader) Int(n int) int64 {
	v := r.Uint(n)
	if r.failed {
		return 0
	}
	shift := 64 - 8*n
	return int64(v<<shift) >> shift
}

// maxBytes is the length of the longest number that fits into 64 bits. Uleb
// drops bits beyond 64, so that it can skip signed numbers, too.
const maxBytes = 10

// Uleb reads an unsigned LEB128.
func (r *Reader) Uleb() uint64 {
	if r.pos < len(r.data) && r.data[r.pos] < 0x80 { // nearly always
		r.pos++
		return uint64(r.data[r.pos-1])
	}
	return r.longUleb()
}

//go:noinline
func (r *Reader) longUleb() (v uint64) {
	for shift := 0; shift < 7*maxBytes; shift += 7 {
		b := r.Byte()
		v |= uint64(b&0x7f) << shift
		if b&0x80 == 0 {
			if r.failed {
				return 0
			}
			return v
		}
	}
	r.Fail()
	return 0
}

// Sleb reads a signed LEB128.
func (r *Reader) Sleb() (v int64) {
	for shift := 0; shift < 7*maxBytes; shift += 7 {
		b := r.Byte()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if r.failed {
				return 0
			}
			if shift+7 < 64 && b&0x40 != 0 {
				v |= -1 << (shift + 7)
			}
			return v
		}
	}
	r.Fail()
	return 0
}

// Bytes returns the next n bytes, which are never nil.
func (r *Reader) Bytes(n uint64) []byte {
	if n > uint64(r.Len()) {
		r.Fail()
		return []byte{}
	}
	b := r.data[r.pos : r.pos+int(n) : r.pos+int(n)]
	r.pos += int(n)
	return b
}

// Block reads an unsigned LEB128 length and returns that many bytes after it.
func (r *Reader) Block() []byte { return r.Bytes(r.Uleb()) }

// String returns the bytes before a zero byte, and skips that.
func (r *Reader) String() string {
	from := r.pos
	if r.SkipString(); r.failed {
		return ""
	}
	return string(r.data[from : r.pos-1])
}

// SkipString skips a string and its zero byte.
func (r *Reader) SkipString() {
	n := bytes.IndexByte(r.Rest(), 0)
	if n < 0 {
		r.Fail()
		return
	}
	r.pos += n + 1
}
