package agg

import (
	"math"
	"math/bits"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/grouping"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

// pairs counts how often each (group, word) occurs: the state of aggregates that
// keep many numbers for a group (distinct values, buckets of a sketch or of a
// histogram). All groups share one table, so that a group with three values costs
// three entries and no object of its own.
type pairs struct {
	entries []pair
	slots   []uint64 // hash in the upper half, 1 + entry in the lower; 0: free
	heads   []uint32 // by group: 1 + its newest entry; 0 if none
	sizes   []uint32 // by group: its entries
}

type pair struct {
	word  uint64
	group uint32
	next  uint32 // as heads: the group's entry before this one
	count int64
}

func (p *pairs) Grow(n int) {
	p.heads, p.sizes = rowstore.Extended(p.heads, n), rowstore.Extended(p.sizes, n)
}

func (p *pairs) Reset() {
	if len(p.slots) > 64*len(p.entries) && len(p.slots) > grouping.MinSlots {
		p.slots = nil
	}
	clear(p.slots)
	p.entries, p.heads, p.sizes = p.entries[:0], p.heads[:0], p.sizes[:0]
}

// Bytes returns the approximate memory in use.
func (p *pairs) Bytes() int64 { return int64(len(p.entries))*32 + int64(len(p.slots))*8 }

// add counts words[r] for the group of r, for each of rows.
func (p *pairs) add(rows []uint16, groups []uint32, words []uint64) {
	for _, r := range rows {
		p.addOne(groups[r], words[r])
	}
}

// addCounts adds counts made elsewhere: at in.rows, the word (first column) and
// its number of occurrences (second column).
func (p *pairs) addCounts(in *fold.Input, state []batch.Column) error {
	word, n := state[0].Int, state[1].Int
	for _, r := range in.Rows {
		p.addOne(in.Groups[r], uint64(word[r])).count += n[r] - 1
	}
	return nil
}

// addOne increments the count of a word of a group and returns its entry.
func (p *pairs) addOne(group uint32, word uint64) *pair {
	e := &p.entries[p.find(group, word)]
	e.count++
	return e
}

// find returns the index of the entry for a word of a group. A new entry has count 0.
func (p *pairs) find(group uint32, word uint64) int {
	if 2*len(p.entries) >= len(p.slots) {
		p.rehash(max(4*len(p.slots), grouping.MinSlots))
	}
	h := hashPair(group, word)
	for tag := h >> 32; ; h++ {
		s := &p.slots[h&uint64(len(p.slots)-1)]
		if *s == 0 {
			p.entries = append(p.entries, pair{word, group, p.heads[group], 0})
			*s = tag<<32 | uint64(len(p.entries))
			p.heads[group] = uint32(len(p.entries))
			p.sizes[group]++
			return len(p.entries) - 1
		}
		if *s>>32 != tag {
			continue
		}
		i := int(uint32(*s) - 1)
		if e := &p.entries[i]; e.word == word && e.group == group {
			return i
		}
	}
}

func (p *pairs) rehash(n int) {
	p.slots = make([]uint64, n)
	for i := range p.entries {
		h := hashPair(p.entries[i].group, p.entries[i].word)
		tag := h >> 32
		for p.slots[h&uint64(n-1)] != 0 {
			h++
		}
		p.slots[h&uint64(n-1)] = tag<<32 | uint64(i+1)
	}
}

// appendGroup appends the entries of a group to dst, the oldest first.
func (p *pairs) appendGroup(group uint32, dst []pair) []pair {
	from := len(dst)
	for i := p.heads[group]; i != 0; i = p.entries[i-1].next {
		dst = append(dst, p.entries[i-1])
	}
	slices.Reverse(dst[from:])
	return dst
}

func hashPair(group uint32, word uint64) uint64 {
	hi, lo := bits.Mul64(word^rowstore.HashSeed, uint64(group)<<32^0x9e3779b97f4a7c15)
	return (hi ^ lo) * 0xd6e8feb86659fd93
}

// identities turns values of a column into words that are equal where the
// values are, and back.
type identities struct {
	typ   types.Type
	space *grouping.Codes // of strings, LISTs and ENCODINGs
}

func newIdentities(t types.Type) *identities {
	d := &identities{typ: t}
	switch t.Physical() {
	case types.PhysCode, types.PhysAny:
		d.space = grouping.NewCodes()
	}
	return d
}

// number stores the words of c's values at rows in dst, by physical row.
func (d *identities) number(c *batch.Column, rows []uint16, dst []uint64) {
	k := grouping.Key{Typ: d.typ, Col: c}
	if d.space != nil {
		k.Codes = d.space.Translate(c, rows)
	}
	k.Words(rows, dst, 1)
}

// value returns the value of a word.
func (d *identities) value(w uint64) types.Value {
	switch d.typ.Physical() {
	case types.PhysCode, types.PhysAny:
		return d.space.Value(d.typ, uint32(w))
	case types.PhysFloat:
		return types.Value{Type: d.typ, F: math.Float64frombits(w)}
	}
	return types.Value{Type: d.typ, I: int64(w)}
}

// stableHash returns a hash of a word's value that is the same in all processes:
// of the string, not of its code.
func (d *identities) stableHash(w uint64) uint64 {
	if d.space == nil {
		return mixed(w, 0)
	}
	text := d.space.Values[w]
	h := uint64(len(text))
	for ; len(text) >= 8; text = text[8:] {
		h = mixed(h, uint64(text[0])|uint64(text[1])<<8|uint64(text[2])<<16|uint64(text[3])<<24|
			uint64(text[4])<<32|uint64(text[5])<<40|uint64(text[6])<<48|uint64(text[7])<<56)
	}
	last := uint64(0)
	for i := range len(text) {
		last |= uint64(text[i]) << (8 * i)
	}
	return mixed(h, last)
}

// mixed spreads the bits of x and y over 64.
func mixed(x, y uint64) uint64 {
	hi, lo := bits.Mul64(x^0xa0761d6478bd642f, y^0xe7037ed1a0b428db)
	h := hi ^ lo
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	return h ^ h>>32
}

// each calls add with the words of the n values that follow in a state. It reports
// false if there are not so many.
func (d *identities) each(s *states.Reader, n int, add func(word uint64)) bool {
	var rows [batch.MaxRows]uint16
	var words [batch.MaxRows]uint64
	for n > 0 {
		c := batch.New([]types.Type{d.typ}).Cols[0] // as many at once as fit into a column
		k := min(n, batch.MaxRows)
		for i := range k {
			rows[i] = uint16(i)
			c.Append(i, s.Value(d.typ, 0))
		}
		if s.Bad {
			return false
		}
		d.number(&c, rows[:k], words[:])
		for _, w := range words[:k] {
			add(w)
		}
		n -= k
	}
	return !s.Bad
}

func (d *identities) reset() {
	if d.space != nil {
		d.space.Reset()
	}
}

// crowded reports whether most of the strings kept are unused, given the number that
// is still needed.
func (d *identities) crowded(needed int) bool {
	return d.space != nil && d.space.Own && d.space.Size() > 2*needed+rowstore.MaxDict
}

// compact drops the strings that neither entries nor others use, and assigns new
// words to the entries. It returns the new word of each old one.
func (p *pairs) compact(d *identities, others []uint64) (words []uint32) {
	used := make([]bool, d.space.Size())
	for i := range p.entries {
		used[p.entries[i].word] = true
	}
	for _, w := range others {
		used[w] = true
	}
	words = d.space.Compact(used)
	for i := range p.entries {
		p.entries[i].word = uint64(words[p.entries[i].word])
	}
	p.rehash(len(p.slots))
	return words
}
