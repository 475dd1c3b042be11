package batch

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// key stands for a string in the table. For a string of up to 15 bytes it is
// the string: its bytes, padded with zeros, and the length plus one in the last.
// For a longer one lo is a hash of all its bytes, and hi the length with a mark.
type key struct{ lo, hi uint64 }

// keys is a growing list of keys, in chunks, so that growing copies none.
type keys [][]key

const (
	keysBits = 15
	keysMask = 1<<keysBits - 1
)

func (ks keys) at(i uint32) *key { return &ks[i>>keysBits][i&keysMask] }

// set makes k the i-th key; i is at most the number of keys.
func (ks *keys) set(i uint32, k key) {
	if int(i>>keysBits) == len(*ks) {
		*ks = append(*ks, nil)
	}
	c := &(*ks)[i>>keysBits]
	if len(*ks) > 1 && *c == nil { // the first chunk is as large as needed
		*c = make([]key, 0, keysMask+1)
	}
	*c = append(*c, k)
}

// inlineMax is the length up to which a key is the whole string.
const inlineMax = 15

const longMark = 0xff << 56

func (k key) inline() bool { return k.hi < longMark }

// The hash is seeded per process: the strings of an observed program may be
// chosen by somebody who wants them to collide.
var seed = [4]uint64{rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1, rand.Uint64() | 1}

func (k key) hash() uint64 {
	return mul(k.lo^seed[0], k.hi^seed[1])
}

// Hash is a hash of s that is the same wherever s occurs in this process, and
// differs from process to process.
func Hash(s string) uint64 {
	k := keyOf(stringBytes(s))
	return mul(k.hash()^seed[2], 0x9e3779b97f4a7c15)
}

// shapes are, for each length, masks that keep that many bytes of a key's two
// words, and the mark of the length.
var shapes = func() (s [inlineMax + 1]struct{ lo, hi, size uint64 }) {
	for n := range s {
		s[n].lo, s[n].hi = 1<<(8*min(n, 8))-1, 1<<(8*max(n-8, 0))-1
		s[n].size = uint64(n+1) << 56
	}
	return s
}()

// keyOfText is keyOf, faster where 16 bytes can be read: it reads them all and
// cuts off what does not belong, without a branch on the length.
func keyOfText(b []byte) key {
	if n := len(b); n <= inlineMax && cap(b) > inlineMax {
		s, b := &shapes[n], b[:inlineMax+1]
		return key{binary.LittleEndian.Uint64(b) & s.lo, binary.LittleEndian.Uint64(b[8:])&s.hi | s.size}
	}
	return keyOf(b)
}

// keyOf reads nothing beyond b. Loads that overlap cover lengths between the
// powers of two.
func keyOf(b []byte) key {
	n := len(b)
	size := uint64(n+1) << 56
	switch {
	case n > inlineMax:
		return key{hashLong(b), longMark | uint64(n)}
	case n >= 8:
		tail := binary.LittleEndian.Uint64(b[n-8:])
		return key{binary.LittleEndian.Uint64(b), tail>>(8*(16-n)) | size}
	case n >= 4:
		tail := uint64(binary.LittleEndian.Uint32(b[n-4:]))
		return key{uint64(binary.LittleEndian.Uint32(b)) | tail>>(8*(8-n))<<32, size}
	case n > 0:
		mid, last := n/2, n-1
		return key{uint64(b[0]) | uint64(b[mid])<<(8*mid) | uint64(b[last])<<(8*last), size}
	}
	return key{hi: size}
}

// hashLong hashes more than 16 bytes, 16 at a time; the last 16 may overlap
// those before. Names of functions mostly have up to 32, two independent steps.
func hashLong(b []byte) uint64 {
	tail := b[len(b)-16:]
	h := uint64(len(b)) ^ mul(binary.LittleEndian.Uint64(tail)^seed[0], binary.LittleEndian.Uint64(tail[8:])^seed[1])
	for len(b) > 16 {
		h = bits.RotateLeft64(h, 29) ^ mul(binary.LittleEndian.Uint64(b)^seed[2], binary.LittleEndian.Uint64(b[8:])^seed[3])
		b = b[16:]
	}
	return h
}
