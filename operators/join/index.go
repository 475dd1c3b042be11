package join

import (
	"hash/maphash"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/types"
)

// slotIndex finds slots of a rowStore by hash: chains through the slots, newest first.
type slotIndex struct {
	heads []int32 // by hash, a power of two; -1: none
	next  []int32 // by slot; -1: the last
	prev  []int32 // by slot; -1: first of its chain; absent: not in the index
	hash  []uint64
	n     int
}

const absent = -2

func (x *slotIndex) insert(slot int32, h uint64) {
	if n := int(slot) + 1; n > len(x.next) {
		old := len(x.next)
		x.next, x.prev, x.hash = rowstore.Extend(x.next, n), rowstore.Extend(x.prev, n), rowstore.Extend(x.hash, n)
		for i := old; i < n; i++ {
			x.prev[i] = absent
		}
	}
	if x.n >= len(x.heads) {
		x.rehash(max(64, 2*len(x.heads)))
	}
	x.hash[slot] = h
	x.link(slot)
	x.n++
}

func (x *slotIndex) link(slot int32) {
	head := &x.heads[x.hash[slot]&uint64(len(x.heads)-1)]
	x.next[slot], x.prev[slot] = *head, -1
	if *head >= 0 {
		x.prev[*head] = slot
	}
	*head = slot
}

// rehash distributes the slots over size chains and keeps their order within a chain.
func (x *slotIndex) rehash(size int) {
	old := x.heads
	x.heads = make([]int32, size)
	for i := range x.heads {
		x.heads[i] = -1
	}
	for _, head := range old {
		last := int32(-1)
		for s := head; s >= 0; s = x.next[s] {
			last = s
		}
		for s := last; s >= 0; {
			before := x.prev[s]
			x.link(s)
			s = before
		}
	}
}

func (x *slotIndex) remove(slot int32) {
	if int(slot) >= len(x.prev) || x.prev[slot] == absent {
		return
	}
	if p := x.prev[slot]; p >= 0 {
		x.next[p] = x.next[slot]
	} else {
		x.heads[x.hash[slot]&uint64(len(x.heads)-1)] = x.next[slot]
	}
	if n := x.next[slot]; n >= 0 {
		x.prev[n] = x.prev[slot]
	}
	x.prev[slot] = absent
	x.n--
}

// first returns the newest slot of a hash's chain, which other hashes may share; -1: none.
func (x *slotIndex) first(h uint64) int32 {
	if len(x.heads) == 0 {
		return -1
	}
	return x.match(x.heads[h&uint64(len(x.heads)-1)], h)
}

// after returns the next older slot with the same hash; -1: none.
func (x *slotIndex) after(slot int32) int32 { return x.match(x.next[slot], x.hash[slot]) }

func (x *slotIndex) match(slot int32, h uint64) int32 {
	for slot >= 0 && x.hash[slot] != h {
		slot = x.next[slot]
	}
	return slot
}

// rowHash hashes the keys of rows; equal keys of any columns have equal hashes.
type rowHash struct {
	hashes [batch.MaxRows]uint64 // by physical row
	rows   []uint16
	texts  []textHash // by key
}

// textHash caches the hashes of a dictionary's strings.
type textHash struct {
	of     *batch.Dict
	hashes []uint64
}

var textSeed = maphash.MakeSeed()

// fill hashes the key columns of the rows and returns the rows without NULLs, since NULL
// equals nothing.
func (h *rowHash) fill(keys []*batch.Column, rows []uint16) []uint16 {
	for _, r := range rows {
		h.hashes[r] = 0
	}
	if h.texts == nil {
		h.texts = make([]textHash, len(keys))
	}
	for k, c := range keys {
		if len(c.Nulls) > 0 && c.Nulls.Any() {
			h.rows = h.rows[:0]
			for _, r := range rows {
				if !c.Nulls.Get(int(r)) {
					h.rows = append(h.rows, r)
				}
			}
			rows = h.rows
		}
		switch c.Type.Physical() {
		case types.PhysBool:
			for _, r := range rows {
				w := uint64(0)
				if c.Bool[r] {
					w = 1
				}
				h.hashes[r] = rowstore.HashWord(h.hashes[r] ^ w)
			}
		case types.PhysFloat:
			for _, r := range rows {
				h.hashes[r] = rowstore.HashWord(h.hashes[r] ^ rowstore.CanonicalBits(c.Float[r]))
			}
		case types.PhysCode:
			words := h.texts[k].words(c)
			for _, r := range rows {
				h.hashes[r] = rowstore.HashWord(h.hashes[r] ^ words[c.Code[r]])
			}
		default:
			for _, r := range rows {
				h.hashes[r] = rowstore.HashWord(h.hashes[r] ^ uint64(c.Int[r]))
			}
		}
	}
	return rows
}

func (t *textHash) words(c *batch.Column) []uint64 {
	if t.of != c.Dict || c.Dict == nil {
		t.of, t.hashes = c.Dict, t.hashes[:0]
	}
	for i := len(t.hashes); i < len(c.Values); i++ {
		t.hashes = append(t.hashes, maphash.String(textSeed, c.Values[i]))
	}
	return t.hashes
}
