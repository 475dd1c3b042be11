package rowstore

import (
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// KeyTable numbers distinct keys in the order of their first look-up: 0, 1, 2, ... A key is
// a row of columns. As in DISTINCT and PARTITION BY, NULLs equal each other, so do NaNs,
// and 0 equals -0. Keys are compared, not only their hashes.
//
// A key is stored as words: one NULL bit per column, then one word per column; a string is
// its code in a dictionary of the table.
type KeyTable struct {
	types []types.Type
	tr    []*translator // for PhysCode and PhysAny columns
	masks int           // words of NULL bits
	width int           // words of a key

	words []uint64 // key i at i*width
	table []uint32 // open addressing: 1 + key number; 0: empty
	hash  []uint32 // of key i

	row []uint64 // scratch: keys of a batch
}

func NewKeyTable(s []types.Type) *KeyTable {
	t := &KeyTable{types: s, tr: make([]*translator, len(s)), masks: (len(s) + 63) / 64}
	t.width = t.masks + len(s)
	t.Reset()
	return t
}

// Reset removes all keys.
func (t *KeyTable) Reset() {
	t.words, t.hash = t.words[:0], t.hash[:0]
	if len(t.table) > 1<<16 || t.table == nil {
		t.table = make([]uint32, 256)
	}
	clear(t.table)
	for i, ty := range t.types {
		switch ty.Physical() {
		case types.PhysCode, types.PhysAny:
			if t.tr[i] == nil || t.tr[i].to.Len() > MaxDict {
				t.tr[i] = newTranslator()
			}
		}
	}
}

// Len returns the number of keys.
func (t *KeyTable) Len() int { return len(t.hash) }

// Bytes returns the approximate memory in bytes.
func (t *KeyTable) Bytes() int64 {
	n := int64(len(t.words))*8 + int64(len(t.table)+len(t.hash))*4
	for _, tr := range t.tr {
		if tr != nil {
			n += tr.Bytes
		}
	}
	return n
}

// Lookup appends the key number of each of rows to ids. A new key gets the next number.
func (t *KeyTable) Lookup(cols []batch.Column, rows []uint16, ids []uint32) []uint32 {
	t.fill(cols, rows)
	for i := range rows {
		ids = append(ids, t.number(t.row[i*t.width:(i+1)*t.width]))
	}
	return ids
}

// fill computes the keys of rows, column by column, into t.row.
func (t *KeyTable) fill(cols []batch.Column, rows []uint16) {
	t.row = Extend(t.row, len(rows)*t.width)
	clear(t.row[:len(rows)*t.width])
	for c := range t.types {
		col, w := &cols[c], t.row[t.masks+c:]
		switch t.types[c].Physical() {
		case types.PhysBool:
			for i, r := range rows {
				if col.Bool[r] {
					w[i*t.width] = 1
				}
			}
		case types.PhysInt:
			for i, r := range rows {
				w[i*t.width] = uint64(col.Int[r])
			}
		case types.PhysFloat:
			for i, r := range rows {
				w[i*t.width] = CanonicalBits(col.Float[r])
			}
		case types.PhysCode:
			tr := t.tr[c]
			tr.source(col)
			for i, r := range rows {
				if !col.Nulls.Get(int(r)) {
					w[i*t.width] = uint64(tr.code(col.Values, col.Code[r]))
				}
			}
		case types.PhysAny:
			for i, r := range rows {
				if !col.Nulls.Get(int(r)) {
					w[i*t.width] = uint64(t.tr[c].add(AnyText(col.Any[r])))
				}
			}
		}
		if len(col.Nulls) == 0 {
			continue
		}
		for i, r := range rows {
			if col.Nulls.Get(int(r)) {
				t.row[i*t.width+c/64] |= 1 << (c % 64)
				w[i*t.width] = 0
			}
		}
	}
}

// number finds or adds one key.
func (t *KeyTable) number(key []uint64) uint32 {
	if 4*len(t.hash) >= 3*len(t.table) {
		t.rehash(2 * len(t.table))
	}
	h := hashWords(key)
	mask := uint32(len(t.table) - 1)
	for at := h & mask; ; at = (at + 1) & mask {
		k := t.table[at]
		if k == 0 {
			t.table[at] = t.insert(key, h)
			return uint32(len(t.hash) - 1)
		}
		if t.hash[k-1] == h && t.equal(k-1, key) {
			return k - 1
		}
	}
}

func (t *KeyTable) equal(k uint32, key []uint64) bool {
	have := t.words[int(k)*t.width:]
	for i, w := range key {
		if have[i] != w {
			return false
		}
	}
	return true
}

// insert appends a key and returns its entry for the table.
func (t *KeyTable) insert(key []uint64, h uint32) uint32 {
	t.words = append(t.words, key...)
	t.hash = append(t.hash, h)
	return uint32(len(t.hash))
}

func (t *KeyTable) rehash(size int) {
	t.table = make([]uint32, size)
	mask := uint32(size - 1)
	for k, h := range t.hash {
		at := h & mask
		for t.table[at] != 0 {
			at = (at + 1) & mask
		}
		t.table[at] = uint32(k + 1)
	}
}

// Retain keeps only the keys in ids, which get the numbers 0, 1, 2, ... in this order. ids
// ascend.
func (t *KeyTable) Retain(ids []uint32) {
	old := *t
	t.tr = make([]*translator, len(t.types))
	t.words, t.hash, t.table = nil, nil, nil
	t.Reset()
	key := make([]uint64, t.width)
	for _, id := range ids {
		copy(key, old.words[int(id)*t.width:])
		for c, tr := range t.tr {
			null := key[c/64]&(1<<(c%64)) != 0
			if w := &key[t.masks+c]; tr != nil && !null {
				*w = uint64(tr.add(old.tr[c].to.Values()[*w]))
			}
		}
		t.number(key)
	}
}
