package batch

import "unsafe"

// arena stores the bytes of many strings in few allocations.
type arena struct {
	chunks []unsafe.Pointer // the first bytes of those that have numbers
	free   []byte           // of the last chunk
	size   int              // of the last chunk
	place  uint32           // of free; noPlace if the last chunk has no number
}

// Chunks double from minChunk to maxChunk. They stay small because a reader that keeps one
// string alive keeps its chunk alive.
const (
	minChunk  = 1 << 10
	maxChunk  = 1 << placeBits
	placeBits = 16        // of a place: the offset in its chunk, whose number is in the others
	noPlace   = 1<<32 - 1 // of strings that are not in a chunk, or in one without a number
)

// copy returns a copy of b and its place.
func (a *arena) copy(b []byte) (s string, place uint32) {
	if len(b) == 0 {
		return "", noPlace
	}
	if len(b) > len(a.free) {
		if len(b) > maxChunk/4 {
			return string(b), noPlace
		}
		a.size = max(min(max(2*a.size, minChunk), maxChunk), len(b))
		a.free, a.place = make([]byte, a.size), noPlace
		if len(a.chunks) < noPlace>>placeBits {
			a.place = uint32(len(a.chunks)) << placeBits
			a.chunks = append(a.chunks, unsafe.Pointer(&a.free[0]))
		}
	}
	n := copy(a.free, b)
	s, place = unsafe.String(&a.free[0], n), a.place
	a.free = a.free[n:]
	if place != noPlace {
		a.place += uint32(n)
	}
	return s, place
}

// at returns the string of n bytes at a place; ok is false for noPlace.
func (a *arena) at(place uint32, n int) (s string, ok bool) {
	if place == noPlace {
		return "", false
	}
	return unsafe.String((*byte)(unsafe.Add(a.chunks[place>>placeBits], place&(maxChunk-1))), n), true
}
