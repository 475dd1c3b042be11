package fold

import (
	"slices"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
)

// Lanes is the state of the aggregates that need a few words for a group, such as
// counts and sums: one row of words for each group, with a fixed position for each
// aggregate. With many groups every access to a group's state is a cache miss;
// this layout has one miss for all these aggregates together.
//
// Rows are stored in chunks, so that a million additional groups do not require
// copying the existing ones.
type Lanes struct {
	chunks [][]uint64
	Width  int // words of a row
	groups int
}

// A chunk has the rows of chunkGroups groups, the first one as many as needed.
const (
	chunkBits   = 18
	chunkGroups = 1 << chunkBits
	chunkMask   = chunkGroups - 1
)

// Reserve allocates n words of each row for an aggregate and returns the index of
// the first. It must be called before there are groups.
func (l *Lanes) Reserve(n int) (at int) {
	l.Width += n
	return l.Width - n
}

func (l *Lanes) Grow(groups int) {
	if groups <= l.groups || l.Width == 0 {
		return
	}
	l.groups = groups
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, nil)
	}
	if first := min(groups, chunkGroups) * l.Width; first > len(l.chunks[0]) {
		l.chunks[0] = rowstore.Extended(l.chunks[0], first)
	}
	for len(l.chunks)<<chunkBits < groups {
		l.chunks = append(l.chunks, batch.InHugePages(make([]uint64, l.Width<<chunkBits)))
	}
}

// Reset drops all groups. It keeps their memory for as many new groups.
func (l *Lanes) Reset() {
	used := (l.groups + chunkMask) >> chunkBits
	for i, c := range l.chunks {
		if i < used {
			clear(c)
		}
	}
	l.chunks = slices.Delete(l.chunks, min(2*used+1, len(l.chunks)), len(l.chunks))
	l.groups = 0
}

// Lane is the part of one aggregate.
type Lane struct {
	*Lanes
	At int
}

// OneChunk returns the words of the state if they are in one chunk, which is
// faster to process, else nil.
func (l Lane) OneChunk() []uint64 {
	if len(l.chunks) == 1 {
		return l.chunks[0][l.At:]
	}
	return nil
}

// Words returns the words of a group, beginning with the aggregate's first.
func (l Lane) Words(group uint32) []uint64 {
	return l.chunks[group>>chunkBits][int(group&chunkMask)*l.Width+l.At:]
}

// The rows are grown and reset together.
func (Lane) Grow(int) {}

func (Lane) Reset() {}
