package batch

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// key stands for a string in the table. For a string of up to 16 bytes it is
// the string: lo and hi hold its bytes, padded with zeros. For a longer one lo is
// a hash of all its bytes. size is the length plus one, so that the zero key is
// nobody's.
type key struct {
	lo, hi uint64
	size   uint32
}

// inlineMax is the length up to which a key is the whole string.
const inlineMax = 16

func (k key) inline() bool { return k.size <= inlineMax+1 }

// The hash is seeded per process: the strings of an observed program may be
// chosen by somebody who wants them to collide.
var seed = [4]uint64{rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1}

func (k key) hash() uint64 {
	return mul(k.lo^seed[0], k.hi^uint64(k.size)^seed[1])
}

// Hash is a hash of s that is the same wherever s occurs in this process, and
// differs from process to process.
func Hash(s string) uint64 {
	k := keyOf(stringBytes(s))
	return mul(k.hash()^seed[2], 0x9e3779b97f4a7c15)
}

// masks keep the first n bytes of a key's two words.
var masks = func() (m [inlineMax + 1][2]uint64) {
	for n := range m {
		m[n] = [2]uint64{1<<(8*min(n, 8)) - 1, 1<<(8*max(n-8, 0)) - 1}
	}
	return m
}()

// keyOf reads nothing beyond b. Loads that overlap cover lengths between the
// powers of two.
func keyOf(b []byte) key {
	n := len(b)
	size := uint32(n) + 1
	switch {
	case n > inlineMax:
		return key{hashLong(b), 0, size}
	case n >= 8:
		tail := binary.LittleEndian.Uint64(b[n-8:])
		return key{binary.LittleEndian.Uint64(b), tail >> (8 * (16 - n)), size}
	case n >= 4:
		tail := uint64(binary.LittleEndian.Uint32(b[n-4:]))
		return key{uint64(binary.LittleEndian.Uint32(b)) | tail>>(8*(8-n))<<32, 0, size}
	case n > 0:
		mid, last := n/2, n-1
		return key{uint64(b[0]) | uint64(b[mid])<<(8*mid) | uint64(b[last])<<(8*last), 0, size}
	}
	return key{size: size}
}

// hashLong hashes more than 16 bytes, 16 at a time; the last 16 may overlap
// those before. Names of functions mostly have up to 32, two independent steps.
func hashLong(b []byte) uint64 {
	tail := b[len(b)-16:]
	h := mul(binary.LittleEndian.Uint64(tail)^seed[0], binary.LittleEndian.Uint64(tail[8:])^seed[1])
	for len(b) > 16 {
		h = bits.RotateLeft64(h, 29) ^ mul(binary.LittleEndian.Uint64(b)^seed[2], binary.LittleEndian.Uint64(b[8:])^seed[3])
		b = b[16:]
	}
	return h
}
