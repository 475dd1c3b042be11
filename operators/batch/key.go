package batch

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// key represents a string in the table. For a string of up to 11 bytes it is the string: lo
// holds the first eight bytes, the upper half of hi the other three and the length plus
// one. For a longer string the upper half of lo is a hash of all its bytes, and hi has a
// mark and the length. The lower half of hi, and for longer strings of lo, is 0: it is left
// for the slot.
type key struct{ lo, hi uint64 }

const (
	inlineMax = 11 // the length up to which a key is the whole string
	readable  = 12 // number of bytes keyOfText reads
	longMark  = 0xff << 56
)

func (k key) inline() bool { return k.hi < longMark }

// spare returns the bits of lo that are not of the key.
func (k key) spare() uint64 { return uint64(int64(k.hi)>>63) >> 32 }

// inlineHi returns hi for a string of n bytes; tail holds the bytes after the first eight.
func inlineHi(tail uint64, n int) uint64 { return tail<<32 | uint64(n+1)<<56 }

// The hash is seeded per process, because an attacker may choose the strings of an observed
// program so that they collide.
var seed = [4]uint64{rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1}

func (k key) hash() uint64 {
	return mul(k.lo^seed[0], k.hi^seed[1])
}

// shapes holds, for each length, the masks that keep that many bytes of a key's two words,
// and the length's mark.
var shapes = func() (s [inlineMax + 1]struct{ lo, hi, size uint64 }) {
	for n := range s {
		s[n].lo, s[n].hi = 1<<(8*min(n, 8))-1, 1<<(8*max(n-8, 0))-1
		s[n].size = inlineHi(0, n)
	}
	return s
}()

// keyOfText is a faster keyOf for strings with readable bytes after them: it reads a fixed
// size and masks the rest, without a branch on the length.
func keyOfText(b []byte) key {
	if n := len(b); n <= inlineMax && cap(b) >= readable {
		s, b := &shapes[n], b[:readable]
		tail := uint64(binary.LittleEndian.Uint32(b[8:]))
		return key{binary.LittleEndian.Uint64(b) & s.lo, tail&s.hi<<32 | s.size}
	}
	return keyOf(b)
}

// keyOf reads nothing beyond b. Overlapping loads cover the lengths between the powers of
// two.
func keyOf(b []byte) key {
	n := len(b)
	switch {
	case n > inlineMax:
		return key{hashLong(b) >> 32 << 32, longMark | uint64(min(n, 1<<24-1))<<32}
	case n >= 8:
		tail := uint64(binary.LittleEndian.Uint32(b[n-4:]))
		return key{binary.LittleEndian.Uint64(b), inlineHi(tail>>(8*(12-n)), n)}
	case n >= 4:
		tail := uint64(binary.LittleEndian.Uint32(b[n-4:]))
		return key{uint64(binary.LittleEndian.Uint32(b)) | tail>>(8*(8-n))<<32, inlineHi(0, n)}
	case n > 0:
		mid, last := n/2, n-1
		return key{uint64(b[0]) | uint64(b[mid])<<(8*mid) | uint64(b[last])<<(8*last), inlineHi(0, n)}
	}
	return key{hi: inlineHi(0, 0)}
}

// hashLong hashes at least 8 bytes. Most function names have up to 32 bytes: two
// independent steps for the ends, which overlap between 16 and 32 bytes.
func hashLong(b []byte) uint64 {
	n := len(b)
	if n < 16 {
		return mul(binary.LittleEndian.Uint64(b)^seed[0], binary.LittleEndian.Uint64(b[n-8:])^seed[1]^uint64(n))
	}
	tail := b[n-16:]
	h := uint64(n) ^ mul(binary.LittleEndian.Uint64(tail)^seed[0], binary.LittleEndian.Uint64(tail[8:])^seed[1])
	for len(b) > 16 {
		h = bits.RotateLeft64(h, 29) ^ mul(binary.LittleEndian.Uint64(b)^seed[2], binary.LittleEndian.Uint64(b[8:])^seed[3])
		b = b[16:]
	}
	return h
}
