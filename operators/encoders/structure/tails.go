package structure

import (
	"slices"

	"endoscope/operators/encoders"
)

// tails maps k-tails, the k symbols that follow a position of a sequence, to states of an
// automaton. It is an open-addressed table, at most half full, of tail numbers; the symbols
// of the tails are stored consecutively.
type tails struct {
	k       int
	symbols []encoders.Symbol // k for each tail
	states  []int32           // by tail; a state may have been merged since
	slots   []int32           // 1 + a tail; 0: free
	hashes  []uint32          // by slot: of the tail, so that most probes read no symbols
}

func newTails(k int) *tails {
	return &tails{k: k, slots: make([]int32, 64), hashes: make([]uint32, 64)}
}

func hashTail(tail []encoders.Symbol) uint64 {
	h := uint64(0)
	for _, s := range tail {
		h = (h ^ uint64(s)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}

// find returns the number of a tail, and the slot where it is or belongs.
func (t *tails) find(tail []encoders.Symbol) (n int32, at int, hash uint32) {
	h := hashTail(tail)
	hash = uint32(h)
	for at = int(h) & (len(t.slots) - 1); ; at = (at + 1) & (len(t.slots) - 1) {
		n = t.slots[at] - 1
		if n == none || t.hashes[at] == hash && slices.Equal(t.sequence(n), tail) {
			return n, at, hash
		}
	}
}

// sequence returns the symbols of tail n.
func (t *tails) sequence(n int32) []encoders.Symbol { return t.symbols[int(n)*t.k : (int(n)+1)*t.k] }

// put maps a tail, which find did not find, to a state.
func (t *tails) put(tail []encoders.Symbol, at int, hash uint32, state int32) {
	t.symbols = append(t.symbols, tail...)
	t.states = append(t.states, state)
	t.slots[at], t.hashes[at] = int32(len(t.states)), hash
	if 2*len(t.states) > len(t.slots) {
		t.rehash()
	}
}

func (t *tails) rehash() {
	size := 2 * len(t.slots)
	t.slots, t.hashes = make([]int32, size), make([]uint32, size)
	for n := range t.states {
		h := hashTail(t.sequence(int32(n)))
		at := int(h) & (size - 1)
		for t.slots[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		t.slots[at], t.hashes[at] = int32(n)+1, uint32(h)
	}
}

func (t *tails) bytes() int64 {
	return int64(4*cap(t.symbols) + 4*cap(t.states) + 8*len(t.slots))
}

func (t *tails) clone() *tails {
	return &tails{t.k, slices.Clone(t.symbols), slices.Clone(t.states), slices.Clone(t.slots), slices.Clone(t.hashes)}
}
