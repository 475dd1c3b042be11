package batch

import (
	"math/bits"
	"unsafe"
)

// Dict assigns strings small consecutive codes. It only grows: a code means the same string
// for the life of the dictionary. One goroutine (the source that owns it) adds; readers use
// the snapshot that each column carries (Column.Values), so no lock is needed.
//
// A source whose strings are unbounded starts a new Dict when the old one exceeds its
// limit; operators that cache by dictionary key their caches by the *Dict pointer.
//
// Strings are copied into memory of the dictionary, so a caller may reuse the bytes it
// passed. A source with many strings at once codes them with CodeOffsets, CodeRows or
// CodeStrings, which hash a block of strings before they look any up: the look-ups of a
// block are independent, and the processor overlaps their cache misses.
//
// The table is open-addressed with linear probing and at most half full. A slot is 16 bytes
// and holds short strings entirely (see key): finding one is one cache miss. For a long
// string it holds a part of its hash and where its bytes are: finding one is two.
type Dict struct {
	values []string
	slots  []slot // a power of two
	shift  int    // of a hash to an index into slots
	arena  arena
	far    *farBlock // for codeFar
}

// farBlock is the scratch memory of codeFar.
type farBlock struct {
	keys   [codeBlock]key
	hashes [codeBlock]uint64
	places [codeBlock]uint32 // of long strings in the table with the same keys; 0: none
	seen   uint64            // keeps loads that are otherwise unused
}

// slot is a key with 1 + its code in the lower half of hi, and for a long string its place
// in the arena in the lower half of lo; 0: free.
type slot key

func (s slot) free() bool     { return s.hi == 0 }
func (s slot) code() uint32   { return uint32(s.hi) - 1 }
func (s slot) key() key       { return key{s.lo &^ key(s).spare(), s.hi >> 32 << 32} }
func (s slot) has(k key) bool { return (s.lo^k.lo)&^k.spare()|(s.hi^k.hi)>>32 == 0 }

// codeBlock is the number of strings hashed before they are looked up: their keys and
// hashes stay in the first-level cache.
const codeBlock = 512

const minSlots = 32

const cacheLine = 64

// NewDict returns an empty dictionary.
func NewDict() *Dict {
	d := &Dict{}
	d.alloc(minSlots)
	return d
}

// NewDictOf returns a dictionary in which code i means values[i]. The values must be
// distinct.
func NewDictOf(values []string) *Dict {
	d := NewDict()
	for _, v := range values {
		d.Code(v)
	}
	return d
}

// Code returns the code of s, adding s if it is new.
func (d *Dict) Code(s string) uint32 { return d.CodeBytes(stringBytes(s)) }

// CodeBytes is Code for a byte slice that the caller may reuse; it allocates only when the
// string is new.
func (d *Dict) CodeBytes(b []byte) uint32 {
	k := keyOf(b)
	return d.find(k, k.hash(), b)
}

// CodeStrings sets dst[i] to the code of src[i] and adds new strings. dst must be at least
// as long as src.
func (d *Dict) CodeStrings(dst []uint32, src []string) {
	var texts [codeBlock][]byte
	for len(src) > 0 {
		n := min(len(src), codeBlock)
		for i, s := range src[:n] {
			texts[i] = stringBytes(s)
		}
		d.code(dst[:n], texts[:n])
		dst, src = dst[n:], src[n:]
	}
}

// CodeOffsets is CodeStrings for concatenated strings: string i is
// data[offsets[i]:offsets[i+1]], as in Arrow. It codes len(offsets)-1 strings.
func (d *Dict) CodeOffsets(dst []uint32, data []byte, offsets []uint32) {
	var texts [codeBlock][]byte
	for len(offsets) > 1 {
		n := min(len(offsets)-1, codeBlock)
		start := offsets[0]
		for i, stop := range offsets[1 : n+1] {
			texts[i] = data[start:stop]
			start = stop
		}
		d.code(dst[:n], texts[:n])
		dst, offsets = dst[n:], offsets[n:]
	}
}

// CodeRows is CodeOffsets for selected rows: it sets dst[r] to the code of string r for
// each r of rows. A source that applies a filter itself codes only the rows that pass.
func (d *Dict) CodeRows(dst []uint32, data []byte, offsets []uint32, rows []uint16) {
	var texts [codeBlock][]byte
	var codes [codeBlock]uint32
	for len(rows) > 0 {
		n := min(len(rows), codeBlock)
		for i, r := range rows[:n] {
			texts[i] = data[offsets[r]:offsets[int(r)+1]]
		}
		d.code(codes[:n], texts[:n])
		for i, r := range rows[:n] {
			dst[r] = codes[i]
		}
		rows = rows[n:]
	}
}

// noCode is the code of no string.
const noCode = 1<<32 - 1

// nearStrings is the number of strings whose slots fit in the second-level cache.
const nearStrings = 1 << 15

// code codes one block.
func (d *Dict) code(dst []uint32, texts [][]byte) {
	if len(d.values) > nearStrings {
		d.codeFar(dst, texts)
		return
	}
	for i, b := range texts {
		k := keyOfText(b)
		h := k.hash()
		s := d.slots[int(h>>(d.shift&63))&(len(d.slots)-1)]
		if s.has(k) && (k.inline() || d.values[s.code()] == string(b)) {
			dst[i] = s.code()
		} else {
			dst[i] = d.find(k, h, b)
		}
	}
}

// codeFar is code for a dictionary larger than the caches. Each memory area is first read in
// a loop of a few instructions, in which only addresses depend on the data, so that the
// processor overlaps the misses of many rows.
func (d *Dict) codeFar(dst []uint32, texts [][]byte) {
	if d.far == nil {
		d.far = &farBlock{}
	}
	f := d.far
	any := uint64(0)
	for i, b := range texts {
		f.keys[i] = keyOfText(b)
		f.hashes[i] = f.keys[i].hash()
		any |= f.keys[i].hi
	}
	d.touchSlots(len(texts))
	d.probe(dst)
	if any >= longMark {
		d.touchPlaces(texts)
		d.verify(dst, texts)
	}
	for i, c := range dst { // new strings, and those not found by probe
		if c == noCode {
			dst[i] = d.find(f.keys[i], f.hashes[i], texts[i])
		}
	}
}

// touchSlots reads the home slots of the block's n strings.
func (d *Dict) touchSlots(n int) {
	slots, shift, seen := d.slots, d.shift&63, uint64(0)
	for _, h := range d.far.hashes[:n] {
		seen |= slots[int(h>>shift)&(len(slots)-1)].lo
	}
	d.far.seen |= seen
}

// touchPlaces reads the strings in the table with the same keys as texts, which have the
// same lengths; where there is none, the beginning of the arena.
func (d *Dict) touchPlaces(texts [][]byte) {
	f, chunks, seen := d.far, d.arena.chunks, byte(0)
	for i, b := range texts {
		place := f.places[i&(codeBlock-1)]
		if chunk := int(place >> placeBits); chunk < len(chunks) {
			at := unsafe.Add(chunks[chunk], place&(maxChunk-1))
			seen |= *(*byte)(at) | *(*byte)(unsafe.Add(at, min(uint(len(b)-1), cacheLine-1)))
		}
	}
	f.seen |= uint64(seen)
}

// verify sets the codes of long strings that only have the same key to noCode.
func (d *Dict) verify(dst []uint32, texts [][]byte) {
	f := d.far
	for i, b := range texts {
		if dst[i] == noCode || f.keys[i].inline() {
			continue
		}
		have, ok := d.arena.at(f.places[i&(codeBlock-1)], len(b))
		if !ok {
			have = d.values[dst[i]]
		}
		if have != string(b) {
			dst[i] = noCode
		}
	}
}

// probe reads the home slot of each string of the block and the next slot: dst gets the
// code of the one with its key, else noCode, and places its place, 0 for a short string.
func (d *Dict) probe(dst []uint32) {
	f, slots, shift := d.far, d.slots, d.shift&63
	for i := range dst {
		k, h := &f.keys[i&(codeBlock-1)], f.hashes[i&(codeBlock-1)]
		at := int(h >> shift)
		s0, s1 := &slots[at&(len(slots)-1)], &slots[(at+1)&(len(slots)-1)]
		c, place, spare := uint32(0), uint32(0), k.spare()
		differ1 := (s1.lo^k.lo)&^spare | (s1.hi^k.hi)>>32
		if code := uint32(s1.hi); differ1 == 0 {
			c = code
		}
		if p := uint32(s1.lo); differ1 == 0 {
			place = p
		}
		differ0 := (s0.lo^k.lo)&^spare | (s0.hi^k.hi)>>32
		if code := uint32(s0.hi); differ0 == 0 {
			c = code
		}
		if p := uint32(s0.lo); differ0 == 0 {
			place = p
		}
		dst[i], f.places[i&(codeBlock-1)] = c-1, place&uint32(spare)
	}
}

// find returns the code of b, which has key k with hash h, and adds b if it is new.
func (d *Dict) find(k key, h uint64, b []byte) uint32 {
	for i := int(h >> d.shift); ; i++ {
		s := &d.slots[i&(len(d.slots)-1)]
		if s.free() {
			c := uint32(len(d.values))
			*s = slot{k.lo, k.hi | uint64(c+1)}
			if place := d.add(b); !k.inline() {
				s.lo |= uint64(place)
			}
			if 2*len(d.values) > len(d.slots) {
				d.grow()
			}
			return c
		}
		if s.has(k) && (k.inline() || d.values[s.code()] == string(b)) {
			return s.code()
		}
	}
}

// add appends b to the values and returns its place in the arena.
func (d *Dict) add(b []byte) (place uint32) {
	if len(d.values) == cap(d.values) {
		// Double the slice; append grows large slices by less.
		grown := InHugePages(make([]string, max(2*len(d.values), minSlots)))
		d.values = grown[:copy(grown, d.values)]
	}
	s, place := d.arena.copy(b)
	d.values = append(d.values, s)
	return place
}

// grow doubles the table. A string's slot follows from the upper bits of its hash, so slots
// keep their order: both tables are read and written sequentially, which is cheap even when
// they are large.
func (d *Dict) grow() {
	old := d.slots
	d.alloc(2 * len(old))
	for _, s := range old {
		if s.free() {
			continue
		}
		i := int(s.key().hash() >> d.shift)
		for !d.slots[i&(len(d.slots)-1)].free() {
			i++
		}
		d.slots[i&(len(d.slots)-1)] = s
	}
}

func (d *Dict) alloc(slots int) {
	d.slots = InHugePages(make([]slot, slots))
	d.shift = 64 - bits.Len(uint(slots-1))
}

// Len returns the number of strings in the dictionary.
func (d *Dict) Len() int { return len(d.values) }

// Values returns the current strings: code i means Values()[i]. The caller must not change
// the slice; later additions do not appear in it.
func (d *Dict) Values() []string { return d.values[:len(d.values):len(d.values)] }

// stringBytes returns s as a slice, which must not be written.
func stringBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }

// mul folds the 128-bit product of a and b, which spreads every bit of both over the result
// (the mixing step of wyhash).
func mul(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
