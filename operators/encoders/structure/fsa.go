package structure

import (
	"cmp"
	"slices"

	"endoscope/operators/encoders"
)

// fsa is an immutable deterministic automaton. Its states are 0, the start, to len(from)-2.
// End leads to the state final, which has no arcs and exists even if nothing leads to it.
type fsa struct {
	from  []int32 // the arcs of state q are arcs[from[q]:from[q+1]], by symbol
	arcs  []fsaArc
	final int32
}

type fsaArc struct {
	symbol encoders.Symbol
	to     int32
	born   int64 // see link
	stats  encoders.Stats
}

func (f *fsa) len() int { return len(f.from) - 1 }

// arcsFrom returns the arcs of state q.
func (f *fsa) arcsFrom(q int32) []fsaArc { return f.arcs[f.from[q]:f.from[q+1]] }

// next returns the target of q on x, or none.
func (f *fsa) next(q int32, x encoders.Symbol) int32 {
	arcs := f.arcsFrom(q)
	if i, ok := slices.BinarySearchFunc(arcs, x, func(a fsaArc, x encoders.Symbol) int { return cmp.Compare(a.symbol, x) }); ok {
		return arcs[i].to
	}
	return none
}

// snapshot returns the current automaton of m. State i of f is state states[i] of m;
// number[q] is the state of f for state q of m, merged or not.
func (m *machine) snapshot() (f *fsa, states, number []int32) {
	number = make([]int32, len(m.parent))
	for q := range number {
		number[q] = none
	}
	add := func(q int32) {
		if number[q] == none {
			number[q] = int32(len(states))
			states = append(states, q)
		}
	}
	add(m.root(startState))
	add(finalState)
	for q := range number {
		add(m.root(int32(q)))
	}
	for q := range number {
		number[q] = number[m.root(int32(q))]
	}
	f = &fsa{from: make([]int32, 1, len(states)+1), arcs: make([]fsaArc, 0, m.live), final: number[finalState]}
	for _, q := range states {
		for a := m.first[q]; a != none; a = m.arcs[a].next {
			l := &m.arcs[a]
			f.arcs = append(f.arcs, fsaArc{l.symbol, number[l.to], l.born, l.stats})
		}
		f.close()
	}
	return f, states, number
}

// close ends the arcs of a state. Arcs with the same symbol have the same target and are
// merged.
func (f *fsa) close() {
	begin := int(f.from[len(f.from)-1])
	own := f.arcs[begin:]
	slices.SortFunc(own, func(a, b fsaArc) int { return cmp.Compare(a.symbol, b.symbol) })
	n := 0
	for i := range own {
		if n > 0 && own[n-1].symbol == own[i].symbol {
			own[n-1].born = min(own[n-1].born, own[i].born)
			own[n-1].stats.Merge(&own[i].stats)
			continue
		}
		own[n] = own[i]
		n++
	}
	f.arcs = f.arcs[:begin+n]
	f.from = append(f.from, int32(begin+n))
}

// add adds f to m and joins their start states. symbols translates the symbols of f, nil if
// they are the same. It returns the states of m for the states of f.
func (m *machine) add(f *fsa, symbols []encoders.Symbol) []int32 {
	states := make([]int32, f.len())
	for q := range states {
		if int32(q) == f.final {
			states[q] = finalState
		} else {
			states[q] = m.state()
		}
	}
	for q := range states {
		for _, a := range f.arcsFrom(int32(q)) {
			x := a.symbol
			if symbols != nil && x != encoders.End {
				x = symbols[x]
			}
			arc := m.connect(states[q], x, states[a.to], a.born)
			m.arcs[arc].stats = a.stats
		}
	}
	m.merge(startState, states[0])
	return states
}

// quotient returns f with its states joined to n blocks: state q is in block[q]. On a
// symbol, all states of a block lead to the same block.
func (f *fsa) quotient(block []int32, n int) *fsa {
	// Renumber the blocks so that the block of the start is 0.
	number := make([]int32, n)
	for b := range number {
		number[b] = none
	}
	var members [][]int32
	for q, b := range block {
		if number[b] == none {
			number[b] = int32(len(members))
			members = append(members, nil)
		}
		members[number[b]] = append(members[number[b]], int32(q))
	}
	r := &fsa{from: []int32{0}, final: number[block[f.final]]}
	for _, states := range members {
		for _, q := range states {
			for _, a := range f.arcsFrom(q) {
				a.to = number[block[a.to]]
				r.arcs = append(r.arcs, a)
			}
		}
		r.close()
	}
	return r
}

// numbered returns f with its states in breadth-first order. The arcs of a state are
// ordered by first use, then by name, so the result does not depend on the order of
// sequences.
func (f *fsa) numbered(names []string) *fsa {
	number := make([]int32, f.len())
	for q := range number {
		number[q] = none
	}
	number[0] = 0
	queue := []int32{0}
	r := &fsa{from: []int32{0}, final: none, arcs: make([]fsaArc, 0, len(f.arcs))}
	for i := 0; i < len(queue); i++ {
		for _, a := range f.inOrder(queue[i], names) {
			if number[a.to] == none {
				number[a.to] = int32(len(queue))
				queue = append(queue, a.to)
			}
			a.to = number[a.to]
			r.arcs = append(r.arcs, a)
		}
		r.close()
	}
	if r.final = number[f.final]; r.final == none { // every sequence was cut
		r.final = int32(r.len())
		r.close()
	}
	return r
}

// inOrder returns the arcs of q in the order of numbered.
func (f *fsa) inOrder(q int32, names []string) []fsaArc {
	arcs := slices.Clone(f.arcsFrom(q))
	name := func(x encoders.Symbol) string {
		if x == encoders.End {
			return ""
		}
		return names[x]
	}
	slices.SortFunc(arcs, func(a, b fsaArc) int {
		return cmp.Or(cmp.Compare(a.born, b.born), cmp.Compare(name(a.symbol), name(b.symbol)), cmp.Compare(a.symbol, b.symbol))
	})
	return arcs
}
