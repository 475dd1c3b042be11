package grouping

import (
	"math/bits"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
)

// rowTable groups by any number of keys. A group's key is a row of words: one
// with a bit for each key that is NULL, then one for each key.
type rowTable struct {
	keys  []*Key
	width int
	words []uint64 // of group g at g*width
	slots []uint64 // hash in the upper half, 1 + group in the lower; 0: free
	n     int
	*Scratch
}

func newRowTable(keys []*Key, scratch *Scratch) *rowTable {
	w := 1 + len(keys)
	scratch.rows = rowstore.Extended(scratch.rows, w*batch.MaxRows)
	return &rowTable{keys: keys, width: w, slots: make([]uint64, MinSlots), Scratch: scratch}
}

func (t *rowTable) Assign(rows []uint16, groups []uint32, limit int) (refused int) {
	t.fill(rows)
	for _, r := range rows {
		g := t.find(t.rows[int(r)*t.width:][:t.width], t.row[r], limit)
		if g == 0 {
			refused++
		}
		groups[r] = g - 1
	}
	return refused
}

// fill computes the words and hashes of rows, column by column.
func (t *rowTable) fill(rows []uint16) {
	for _, r := range rows {
		t.rows[int(r)*t.width] = 0
	}
	for i, k := range t.keys {
		k.Words(rows, t.rows[1+i:], t.width)
		if !k.hasNulls() {
			continue
		}
		for _, r := range rows {
			if k.Col.Nulls.Get(int(r)) {
				t.rows[int(r)*t.width] |= 1 << i
				t.rows[int(r)*t.width+1+i] = 0
			}
		}
	}
	for _, r := range rows {
		t.row[r] = hashRow(t.rows[int(r)*t.width:][:t.width])
	}
}

func (t *rowTable) find(key []uint64, h uint64, limit int) uint32 {
	tag := h >> 32
	for ; ; h++ {
		s := &t.slots[h&uint64(len(t.slots)-1)]
		switch {
		case *s == 0 && t.n >= limit:
			return 0
		case *s == 0:
			t.n++
			*s = tag<<32 | uint64(t.n)
			t.words = append(t.words, key...)
			if g := uint32(t.n); 2*t.n > len(t.slots) {
				t.rehash(4 * len(t.slots))
				return g
			}
			return uint32(t.n)
		case *s>>32 == tag && equalWords(t.words[(int(uint32(*s))-1)*t.width:], key):
			return uint32(*s)
		}
	}
}

func equalWords(have, key []uint64) bool {
	for i, w := range key {
		if have[i] != w {
			return false
		}
	}
	return true
}

func (t *rowTable) rehash(n int) {
	t.slots = make([]uint64, n)
	for g := range t.n {
		h := hashRow(t.words[g*t.width:][:t.width])
		tag := h >> 32
		for t.slots[h&uint64(n-1)] != 0 {
			h++
		}
		t.slots[h&uint64(n-1)] = tag<<32 | uint64(g+1)
	}
}

func (t *rowTable) Len() int { return t.n }

func (t *rowTable) Output(c int, groups []uint32, dst *batch.Column) {
	k := t.keys[c]
	if k.Space != nil {
		k.Space.bind(dst)
	}
	for i, g := range groups {
		at := int(g) * t.width
		k.output(i, t.words[at+1+c], t.words[at]>>c&1 != 0, dst)
	}
}

func (t *rowTable) Mark(c int, used []bool) {
	for at := 0; at < len(t.words); at += t.width {
		if t.words[at]>>c&1 == 0 {
			used[t.words[at+1+c]] = true
		}
	}
}

func (t *rowTable) Recode(c int, codes []uint32) {
	for at := 0; at < len(t.words); at += t.width {
		if t.words[at]>>c&1 == 0 {
			t.words[at+1+c] = uint64(codes[t.words[at+1+c]])
		}
	}
	t.rehash(len(t.slots))
}

func (t *rowTable) Reset() {
	if len(t.slots) > 64*t.n && len(t.slots) > MinSlots {
		t.slots = make([]uint64, MinSlots)
	}
	clear(t.slots)
	t.n, t.words = 0, t.words[:0]
}

func hashRow(words []uint64) uint64 {
	h := uint64(0)
	for _, w := range words {
		hi, lo := bits.Mul64(w^rowstore.HashSeed^h, 0x9e3779b97f4a7c15)
		h = hi ^ lo
	}
	return h
}
