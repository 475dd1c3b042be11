package flow

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"endoscope/probes"
	"endoscope/server/wire"
)

// Tally counts by cause what a query lost, and other events worth reporting. It
// is safe for concurrent use.
type Tally struct {
	mu       sync.Mutex
	lost     map[string]uint64
	noted    map[string]uint64
	unseen   map[string]uint64 // child processes that are not observed, by target
	notes    []string          // further notes for the footer
	Rows     atomic.Uint64     // sent to the client
	Acquired atomic.Uint64     // rows taken from sources, not aggregated
	Groups   atomic.Uint64     // partial rows taken from sources
}

func NewTally() *Tally {
	return &Tally{lost: map[string]uint64{}, noted: map[string]uint64{}, unseen: map[string]uint64{}}
}

func (t *Tally) AddLost(cause string, n uint64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	t.lost[cause] += n
	t.mu.Unlock()
}

func (t *Tally) AddNoted(cause string, n uint64) {
	if n == 0 {
		return
	}
	t.mu.Lock()
	t.noted[cause] += n
	t.mu.Unlock()
}

// NoteUnobserved records that an acquisition has counted n child processes that are not
// observed. Other acquisitions of the same target count the same ones.
func (t *Tally) NoteUnobserved(target string, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if more := n - min(n, t.unseen[target]); more > 0 {
		t.unseen[target] = n
		t.noted[probes.Unobserved] += more
	}
}

func (t *Tally) AddNote(text string) {
	t.mu.Lock()
	t.notes = append(t.notes, text)
	t.mu.Unlock()
}

func (t *Tally) Notes() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.notes)
}

// Losses returns the losses, sorted by cause.
func (t *Tally) Losses() []wire.Loss { return t.sorted(t.lost) }

func (t *Tally) Counts() []wire.Loss { return t.sorted(t.noted) }

func (t *Tally) sorted(m map[string]uint64) []wire.Loss {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []wire.Loss
	for c, n := range m {
		out = append(out, wire.Loss{Cause: c, N: n})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Cause < out[j].Cause })
	return out
}

func (t *Tally) TotalLost() uint64 {
	var n uint64
	for _, l := range t.Losses() {
		n += l.N
	}
	return n
}

// Merge adds the losses and counts of another tally.
func (t *Tally) Merge(other *Tally) {
	for _, l := range other.Losses() {
		t.AddLost(l.Cause, l.N)
	}
	for _, l := range other.Counts() {
		t.AddNoted(l.Cause, l.N)
	}
}
