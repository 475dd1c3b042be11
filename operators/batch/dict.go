package batch

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// Dict gives strings small consecutive codes. It only grows: a code, once
// given, means the same string for the life of the dictionary. One goroutine
// (the source that owns it) adds; readers use the snapshot that each column
// carries (Column.Values), so no lock is needed.
//
// A source whose strings are unbounded starts a new Dict when the old one
// passes its limit; operators that cache by dictionary key their caches by the
// *Dict pointer.
//
// Strings are copied into memory of the dictionary's own, so a caller may go
// on using the bytes it passed. A source that has many strings at once codes
// them with CodeOffsets or CodeStrings, which hash a block of them before they
// look any up: the look-ups of a block do not depend on each other, and the
// processor overlaps their cache misses.
//
// The table is open-addressed with linear probing and at most half full. A
// slot holds strings of up to 16 bytes entirely (see key), so that finding one
// touches one place in memory.
type Dict struct {
	values []string
	slots  []slot // a power of two
	arena  arena
	keys   [codeBlock]key // of the block being coded
	hashes [codeBlock]uint64
}

type slot struct {
	key
	code uint32
}

// codeBlock is how many strings are hashed before they are looked up: their
// keys and hashes stay in the first-level cache.
const codeBlock = 128

const minSlots = 64

// NewDict returns an empty dictionary.
func NewDict() *Dict { return &Dict{slots: make([]slot, minSlots)} }

// NewDictOf returns a dictionary in which code i means values[i]. The values
// must be distinct, as those of a dictionary's snapshot are.
func NewDictOf(values []string) *Dict {
	d := NewDict()
	for _, v := range values {
		d.Code(v)
	}
	return d
}

// Code returns the code of s, adding s if it is new.
func (d *Dict) Code(s string) uint32 { return d.CodeBytes(stringBytes(s)) }

// CodeBytes is Code for a byte slice that the caller goes on using; it
// allocates only when the string is new.
func (d *Dict) CodeBytes(b []byte) uint32 {
	k := keyOf(b)
	return d.find(k, k.hash(), b)
}

// CodeStrings puts the code of src[i] into dst[i], adding what is new. dst has
// at least the length of src.
func (d *Dict) CodeStrings(dst []uint32, src []string) {
	for len(src) > 0 {
		n := min(len(src), codeBlock)
		for i, s := range src[:n] {
			d.keys[i] = keyOf(stringBytes(s))
			d.hashes[i] = d.keys[i].hash()
		}
		d.probe(dst[:n])
		for i, s := range src[:n] {
			if dst[i] == noCode || !d.keys[i].inline() && d.values[dst[i]] != s {
				dst[i] = d.find(d.keys[i], d.hashes[i], stringBytes(s))
			}
		}
		dst, src = dst[n:], src[n:]
	}
}

// CodeOffsets is CodeStrings for strings that lie one behind the other: string
// i is data[offsets[i]:offsets[i+1]], as in Arrow. It codes len(offsets)-1
// strings.
func (d *Dict) CodeOffsets(dst []uint32, data []byte, offsets []uint32) {
	for len(offsets) > 1 {
		n := min(len(offsets)-1, codeBlock)
		start := offsets[0]
		for i, stop := range offsets[1 : n+1] {
			if l := stop - start; l <= inlineMax && uint64(start)+inlineMax <= uint64(len(data)) {
				b, m := data[start:start+inlineMax], &masks[l]
				d.keys[i] = key{binary.LittleEndian.Uint64(b) & m[0], binary.LittleEndian.Uint64(b[8:]) & m[1], l + 1}
			} else {
				d.keys[i] = keyOf(data[start:stop])
			}
			d.hashes[i] = d.keys[i].hash()
			start = stop
		}
		d.probe(dst[:n])
		start = offsets[0]
		for i, stop := range offsets[1 : n+1] {
			if dst[i] == noCode || !d.keys[i].inline() && d.values[dst[i]] != string(data[start:stop]) {
				dst[i] = d.find(d.keys[i], d.hashes[i], data[start:stop])
			}
			start = stop
		}
		dst, offsets = dst[n:], offsets[n:]
	}
}

const noCode = ^uint32(0)

// probe looks at the one slot where each string of the block belongs, which
// nearly always settles it. dst gets the code of the string there if the keys
// are equal, else noCode; for a long string that is not yet proof.
func (d *Dict) probe(dst []uint32) {
	slots := d.slots
	for i := range dst {
		k := &d.keys[i&(codeBlock-1)]
		s := &slots[d.hashes[i&(codeBlock-1)]&uint64(len(slots)-1)]
		c := noCode
		if s.key == *k {
			c = s.code
		}
		dst[i] = c
	}
}

// find returns the code of b, which has key k with hash h, adding it if it is
// new.
func (d *Dict) find(k key, h uint64, b []byte) uint32 {
	for {
		s := &d.slots[h&uint64(len(d.slots)-1)]
		if s.key == k && (k.inline() || d.values[s.code] == string(b)) {
			return s.code
		}
		if s.free() {
			return d.add(s, k, b)
		}
		h++
	}
}

func (d *Dict) add(s *slot, k key, b []byte) uint32 {
	c := uint32(len(d.values))
	*s = slot{k, c}
	d.values = append(d.values, d.arena.copy(b))
	if 2*len(d.values) > len(d.slots) {
		d.grow()
	}
	return c
}

// grow quadruples a small table and doubles a large one, whose new memory is
// dearer than its rehashing.
func (d *Dict) grow() {
	old := d.slots
	n := 4 * len(old)
	if len(old) >= 1<<16 {
		n = 2 * len(old)
	}
	d.slots = make([]slot, n)
	for i := range old {
		if old[i].free() {
			continue
		}
		h := old[i].hash()
		for !d.slots[h&uint64(n-1)].free() {
			h++
		}
		d.slots[h&uint64(n-1)] = old[i]
	}
}

// Len is the number of strings in the dictionary.
func (d *Dict) Len() int { return len(d.values) }

// Values is the dictionary as it stands: code i means Values()[i]. The slice
// must not be changed; later additions do not show in it.
func (d *Dict) Values() []string { return d.values[:len(d.values):len(d.values)] }

// arena holds the bytes of many strings in few allocations.
type arena struct {
	free  []byte
	chunk int // size of the last chunk
}

// Chunks double from minChunk to maxChunk: a reader that keeps one string of a
// dictionary alive keeps its chunk alive too, so they stay small.
const (
	minChunk = 1 << 10
	maxChunk = 64 << 10
)

func (a *arena) copy(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > len(a.free) {
		if len(b) > maxChunk/4 {
			return string(b)
		}
		a.chunk = min(max(2*a.chunk, minChunk), maxChunk)
		a.free = make([]byte, max(a.chunk, len(b)))
	}
	n := copy(a.free, b)
	s := unsafe.String(&a.free[0], n)
	a.free = a.free[n:]
	return s
}

// stringBytes is s as a slice, which must not be written.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// mul folds the 128-bit product of a and b, which spreads every bit of both
// over the result (the mixing step of wyhash).
func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
