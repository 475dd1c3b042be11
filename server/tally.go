package server

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"endoscope/server/wire"
)

// tally counts what a query lost and what is worth a line, by cause. It is
// safe for concurrent use.
type tally struct {
	mu       sync.Mutex
	lost     map[string]uint64
	noted    map[string]uint64
	notes    []string      // what else is worth saying, at the end
	rows     atomic.Uint64 // given to the client
	acquired atomic.Uint64 // taken from sources, one by one
	groups   atomic.Uint64 // partial rows taken from sources
}

func newTally() *tally {
	return &tally{lost: map[string]uint64{}, noted: map[string]uint64{}}
}

func (t *tally) addLost(cause string, n uint64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	t.lost[cause] += n
	t.mu.Unlock()
}

func (t *tally) addNoted(cause string, n uint64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	t.noted[cause] += n
	t.mu.Unlock()
}

func (t *tally) addNote(text string) {
	t.mu.Lock()
	t.notes = append(t.notes, text)
	t.mu.Unlock()
}

func (t *tally) said() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes)
}

// losses and counts are sorted by cause.
func (t *tally) losses() []wire.Loss { return t.sorted(t.lost) }
func (t *tally) counts() []wire.Loss { return t.sorted(t.noted) }

func (t *tally) sorted(m map[string]uint64) []wire.Loss {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []wire.Loss
	for c, n := range m {
		out = append(out, wire.Loss{Cause: c, N: n})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Cause < out[j].Cause })
	return out
}

func (t *tally) totalLost() uint64 {
	var n uint64
	for _, l := range t.losses() {
		n += l.N
	}
	return n
}
