package grouping

import (
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
)

// wordTable groups by keys that fit into one 64-bit word: one number, or a few
// strings and booleans packed. Its slots contain the word, so that a lookup
// accesses one place in memory.
type wordTable struct {
	keys   []*Key
	packed bool     // else there is one key, whose NULL is stored outside the table
	null   uint32   // 1 + group of that NULL; 0 if there is none
	words  []uint64 // of each group
	slots  []wordSlot
	*Scratch
}

type wordSlot struct {
	word  uint64
	group uint32 // 1 + group; 0: free
}

const MinSlots = 32

func newWordTable(keys []*Key, scratch *Scratch) *wordTable {
	return &wordTable{keys: keys, packed: packedBits(keys[0].Typ) <= 64,
		slots: make([]wordSlot, MinSlots), Scratch: scratch}
}

func (t *wordTable) Assign(rows []uint16, groups []uint32, limit int) (refused int) {
	if t.packed {
		t.pack(rows)
	} else {
		t.keys[0].Words(rows, t.row[:], 1)
		if t.keys[0].hasNulls() {
			return t.assignNulls(rows, groups, limit)
		}
	}
	for _, r := range rows {
		w := t.row[r]
		// Nearly always the group is where it belongs; the loop is short, so
		// that the processor overlaps the misses of many rows.
		s := &t.slots[rowstore.HashWord(w)&uint64(len(t.slots)-1)]
		g := s.group
		if s.word != w || g == 0 {
			if g = t.find(w, limit); g == 0 {
				refused++
			}
		}
		groups[r] = g - 1
	}
	return refused
}

func (t *wordTable) assignNulls(rows []uint16, groups []uint32, limit int) (refused int) {
	nulls := t.keys[0].Col.Nulls
	for _, r := range rows {
		var g uint32
		switch {
		case !nulls.Get(int(r)):
			g = t.find(t.row[r], limit)
		case t.null == 0 && len(t.words) < limit:
			t.words = append(t.words, 0)
			t.null = uint32(len(t.words))
			fallthrough
		default:
			g = t.null
		}
		if g == 0 {
			refused++
		}
		groups[r] = g - 1
	}
	return refused
}

// pack computes the word of each row.
func (t *wordTable) pack(rows []uint16) {
	shift := 0
	for i, k := range t.keys {
		dst := t.part[:]
		if i == 0 {
			dst = t.row[:]
		}
		k.Words(rows, dst, 1)
		nulls := k.hasNulls()
		for _, r := range rows {
			dst[r]++
			if nulls && k.Col.Nulls.Get(int(r)) {
				dst[r] = 0
			}
		}
		if i > 0 {
			for _, r := range rows {
				t.row[r] |= t.part[r] << shift
			}
		}
		shift += packedBits(k.Typ)
	}
}

// find returns 1 + the group of w; 0 if a new group would exceed limit.
func (t *wordTable) find(w uint64, limit int) uint32 {
	for h := rowstore.HashWord(w); ; h++ {
		s := &t.slots[h&uint64(len(t.slots)-1)]
		switch {
		case s.group != 0 && s.word == w:
			return s.group
		case s.group != 0:
			continue
		case len(t.words) >= limit:
			return 0
		}
		t.words = append(t.words, w)
		g := uint32(len(t.words))
		*s = wordSlot{w, g}
		if 2*len(t.words) > len(t.slots) {
			t.rehash(4 * len(t.slots))
		}
		return g
	}
}

// rehash creates a table of n slots for the existing groups.
func (t *wordTable) rehash(n int) {
	t.slots = make([]wordSlot, n)
	for i, w := range t.words {
		if uint32(i)+1 == t.null {
			continue
		}
		h := rowstore.HashWord(w)
		for t.slots[h&uint64(n-1)].group != 0 {
			h++
		}
		t.slots[h&uint64(n-1)] = wordSlot{w, uint32(i) + 1}
	}
}

func (t *wordTable) Len() int { return len(t.words) }

func (t *wordTable) Output(c int, groups []uint32, dst *batch.Column) {
	k := t.keys[c]
	if k.Space != nil {
		k.Space.bind(dst)
	}
	shift, mask := t.place(c)
	for i, g := range groups {
		if t.packed {
			w := t.words[g] >> shift & mask
			k.output(i, w-1, w == 0, dst)
		} else {
			k.output(i, t.words[g], g+1 == t.null, dst)
		}
	}
}

// place returns the position of key c in a packed word.
func (t *wordTable) place(c int) (shift int, mask uint64) {
	for _, k := range t.keys[:c] {
		shift += packedBits(k.Typ)
	}
	return shift, 1<<packedBits(t.keys[c].Typ) - 1
}

func (t *wordTable) Mark(c int, used []bool) {
	shift, mask := t.place(c)
	for _, w := range t.words {
		if w = w >> shift & mask; w != 0 {
			used[w-1] = true
		}
	}
}

func (t *wordTable) Recode(c int, codes []uint32) {
	shift, mask := t.place(c)
	for i, w := range t.words {
		if old := w >> shift & mask; old != 0 {
			t.words[i] = w&^(mask<<shift) | (uint64(codes[old-1])+1)<<shift
		}
	}
	t.rehash(len(t.slots))
}

func (t *wordTable) Reset() {
	if len(t.slots) > 64*len(t.words) && len(t.slots) > MinSlots {
		// It was large before; clearing that much for every window would cost more than
		// growing again.
		t.slots = make([]wordSlot, MinSlots)
	}
	clear(t.slots)
	t.null, t.words = 0, t.words[:0]
}
