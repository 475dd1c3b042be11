package batch

import "unsafe"

// arena stores the bytes of many strings in few allocations.
type arena struct {
	chunks []unsafe.Pointer // their first bytes
	free   []byte           // of the last chunk
	used   int              // bytes of it
	size   int              // of it
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
		a.free, a.used = make([]byte, a.size), 0
		a.chunks = append(a.chunks, unsafe.Pointer(&a.free[0]))
	}
	n := copy(a.free, b)
	s, place = unsafe.String(&a.free[0], n), noPlace
	if len(a.chunks) < 1<<(32-placeBits) {
		place = uint32((len(a.chunks)-1)<<placeBits | a.used)
	}
	a.free, a.used = a.free[n:], a.used+n
	return s, place
}

// at returns the string of n bytes at a place; ok is false for noPlace.
func (a *arena) at(place uint32, n int) (s string, ok bool) {
	if place == noPlace {
		return "", false
	}
	return unsafe.String((*byte)(unsafe.Add(a.chunks[place>>placeBits], place&(maxChunk-1))), n), true
}
