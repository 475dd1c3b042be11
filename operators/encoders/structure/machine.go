package structure

import (
	"slices"

	"endoscope/operators/encoders"
)

// machine is a deterministic automaton that grows and whose states can be merged. States
// are numbers; a merged state is represented by its root.
//
// A merge costs time proportional to the arcs of the state with fewer arcs, so any number
// of merges costs O(m log m) for m arcs (weighted union).
type machine struct {
	parent []int32 // by state: itself, or the state it was merged into
	first  []int32 // by root: its first arc, or none
	degree []int32 // by root: number of arcs
	arcs   []link
	free   int32      // arcs released by merges, chained by next
	live   int        // arcs that are not free
	index  arcIndex   // (root, symbol) → arc
	work   [][2]int32 // scratch of merge
}

// link is an arc in the list of its state's arcs.
type link struct {
	symbol encoders.Symbol
	to     int32
	next   int32
	born   int64 // the first position in a sequence at which it was taken
	stats  encoders.Stats
}

const (
	none       int32 = -1
	startState int32 = 0 // of every machine, until it is merged
	finalState int32 = 1 // target of End; it has no arcs
)

func newMachine() *machine {
	m := &machine{free: none}
	m.index.alloc(64)
	m.state() // startState
	m.state() // finalState
	return m
}

// state adds a state.
func (m *machine) state() int32 {
	q := int32(len(m.parent))
	m.parent = append(m.parent, q)
	m.first = append(m.first, none)
	m.degree = append(m.degree, 0)
	return q
}

// root returns the state that represents q.
func (m *machine) root(q int32) int32 {
	for m.parent[q] != q {
		m.parent[q] = m.parent[m.parent[q]]
		q = m.parent[q]
	}
	return q
}

// arc returns the arc of the root q for x, or none.
func (m *machine) arc(q int32, x encoders.Symbol) int32 { return m.index.find(q, x) }

// connect adds an arc to the root q, which has none for x.
func (m *machine) connect(q int32, x encoders.Symbol, to int32, born int64) int32 {
	a := m.free
	if a != none {
		m.free = m.arcs[a].next
	} else {
		a = int32(len(m.arcs))
		m.arcs = append(m.arcs, link{})
	}
	m.arcs[a] = link{symbol: x, to: to, born: born}
	m.live++
	m.attach(q, a)
	return a
}

// attach appends arc a to the list of the root q.
func (m *machine) attach(q, a int32) {
	m.arcs[a].next = m.first[q]
	m.first[q] = a
	m.degree[q]++
	if m.index.full() {
		m.reindex()
		return // a is in the list
	}
	m.index.put(q, m.arcs[a].symbol, a)
}

// reindex grows the index and drops the entries of merged states.
func (m *machine) reindex() {
	m.index.alloc(4 * m.live)
	for q, p := range m.parent {
		if int32(q) != p {
			continue
		}
		for a := m.first[q]; a != none; a = m.arcs[a].next {
			m.index.put(p, m.arcs[a].symbol, a)
		}
	}
}

// merge merges p and q, and recursively the targets of their common arcs, so that the
// automaton stays deterministic.
func (m *machine) merge(p, q int32) {
	m.work = append(m.work[:0], [2]int32{p, q})
	for len(m.work) > 0 {
		last := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		p, q := m.root(last[0]), m.root(last[1])
		if p == q {
			continue
		}
		if m.degree[p] < m.degree[q] || m.degree[p] == m.degree[q] && p > q {
			p, q = q, p
		}
		m.parent[q] = p
		moved := m.first[q]
		m.first[q] = none
		for a := moved; a != none; {
			next := m.arcs[a].next
			if have := m.arc(p, m.arcs[a].symbol); have == none {
				m.attach(p, a)
			} else {
				m.unite(have, a)
			}
			a = next
		}
	}
}

// unite merges arc a into arc have, which has the same state and symbol.
func (m *machine) unite(have, a int32) {
	h, b := &m.arcs[have], &m.arcs[a]
	h.stats.Merge(&b.stats)
	h.born = min(h.born, b.born)
	m.work = append(m.work, [2]int32{h.to, b.to})
	b.next = m.free
	m.free = a
	m.live--
}

// bytes returns the approximate memory of m in bytes.
func (m *machine) bytes() int64 {
	return int64(12*cap(m.parent)+72*cap(m.arcs)) + 16*int64(len(m.index.slots))
}

func (m *machine) clone() *machine {
	c := *m
	c.parent, c.first, c.degree = slices.Clone(m.parent), slices.Clone(m.first), slices.Clone(m.degree)
	c.arcs = slices.Clone(m.arcs)
	c.index.slots = slices.Clone(m.index.slots)
	c.work = nil
	return &c
}

// arcIndex is an open-addressed table from state and symbol to arc, at most half full.
type arcIndex struct {
	slots []arcSlot // a power of two
	used  int       // includes stale entries of merged states
	shift int
}

type arcSlot struct {
	key uint64
	arc int32 // 1 + the arc; 0: free
}

func arcKey(q int32, x encoders.Symbol) uint64 { return uint64(q)<<32 | uint64(x) }

func (t *arcIndex) alloc(n int) {
	size, shift := 64, 58
	for size < n {
		size, shift = 2*size, shift-1
	}
	t.slots, t.used, t.shift = make([]arcSlot, size), 0, shift
}

func (t *arcIndex) full() bool { return 2*(t.used+1) > len(t.slots) }

func (t *arcIndex) at(key uint64) int { return int(key * 0x9e3779b97f4a7c15 >> t.shift) }

func (t *arcIndex) find(q int32, x encoders.Symbol) int32 {
	key := arcKey(q, x)
	for i := t.at(key); ; i = (i + 1) & (len(t.slots) - 1) {
		switch s := &t.slots[i]; {
		case s.arc == 0:
			return none
		case s.key == key:
			return s.arc - 1
		}
	}
}

// put adds an entry; it must not exist.
func (t *arcIndex) put(q int32, x encoders.Symbol, arc int32) {
	key := arcKey(q, x)
	i := t.at(key)
	for t.slots[i].arc != 0 {
		i = (i + 1) & (len(t.slots) - 1)
	}
	t.slots[i] = arcSlot{key, arc + 1}
	t.used++
}
