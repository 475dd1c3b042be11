package structure

import (
	"cmp"
	"slices"

	"endoscope/operators/encoders"
)

// equivalent returns the coarsest partition of the states of f into n blocks such that the
// states of a block accept the same sequences: the states of the minimal automaton. It is
// Hopcroft's algorithm for partial automata (Valmari: Fast brief practical DFA
// minimization, Information Processing Letters 112, 2012), O(m log m) for m arcs. Unlike
// there, states from which no sequence can end are kept: a cut sequence has them.
func (f *fsa) equivalent() (block []int32, n int) {
	type edge struct {
		symbol   encoders.Symbol
		from, to int32
	}
	edges := make([]edge, 0, len(f.arcs))
	for q := range f.len() {
		for _, a := range f.arcsFrom(int32(q)) {
			edges = append(edges, edge{a.symbol, int32(q), a.to})
		}
	}
	states := newPartition(f.len())
	states.mark(f.final)
	states.split()

	// Arcs are divided by symbol, then by target block.
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.symbol, b.symbol), cmp.Compare(a.from, b.from))
	})
	arcs := newPartition(len(edges))
	arcs.past = arcs.past[:0]
	arcs.first = arcs.first[:0]
	for i, e := range edges {
		if i == 0 || e.symbol != edges[i-1].symbol {
			if i > 0 {
				arcs.past = append(arcs.past, int32(i))
			}
			arcs.first = append(arcs.first, int32(i))
		}
		arcs.set[i] = int32(len(arcs.first) - 1)
	}
	if len(edges) > 0 {
		arcs.past = append(arcs.past, int32(len(edges)))
	}
	arcs.marked = make([]int32, len(arcs.first))

	into := make([]int32, f.len()+1) // arcs into state q are incoming[into[q]:into[q+1]]
	for _, e := range edges {
		into[e.to+1]++
	}
	for q := range f.len() {
		into[q+1] += into[q]
	}
	incoming := make([]int32, len(edges))
	at := slices.Clone(into)
	for i, e := range edges {
		incoming[at[e.to]] = int32(i)
		at[e.to]++
	}

	done := 1 // blocks whose incoming arcs were split; one may be left out
	for c := 0; c < len(arcs.first); c++ {
		for i := arcs.first[c]; i < arcs.past[c]; i++ {
			states.mark(edges[arcs.elements[i]].from)
		}
		states.split()
		for ; done < len(states.first); done++ {
			for i := states.first[done]; i < states.past[done]; i++ {
				q := states.elements[i]
				for _, e := range incoming[into[q]:into[q+1]] {
					arcs.mark(e)
				}
			}
			arcs.split()
		}
	}
	return states.set, len(states.first)
}

// partition is a refinable partition of the numbers 0 to n-1.
type partition struct {
	elements    []int32 // set s is elements[first[s]:past[s]], the marked elements first
	at          []int32 // by number: its index in elements
	set         []int32 // by number: its set
	first, past []int32
	marked      []int32 // by set: number of marked elements
	touched     []int32 // sets with marked elements
}

// newPartition returns the partition of n numbers into one set.
func newPartition(n int) *partition {
	p := &partition{
		elements: make([]int32, n), at: make([]int32, n), set: make([]int32, n),
		first: []int32{0}, past: []int32{int32(n)}, marked: []int32{0},
	}
	for i := range n {
		p.elements[i], p.at[i] = int32(i), int32(i)
	}
	return p
}

// mark marks a number.
func (p *partition) mark(e int32) {
	s := p.set[e]
	i, j := p.at[e], p.first[s]+p.marked[s]
	if i < j {
		return // already marked
	}
	p.elements[i], p.at[p.elements[j]] = p.elements[j], i
	p.elements[j], p.at[e] = e, j
	if p.marked[s] == 0 {
		p.touched = append(p.touched, s)
	}
	p.marked[s]++
}

// split splits each set that has both marked and unmarked elements; the smaller part
// becomes the new set. It clears all marks.
func (p *partition) split() {
	for _, s := range p.touched {
		j := p.first[s] + p.marked[s]
		if j == p.past[s] {
			p.marked[s] = 0
			continue
		}
		if p.marked[s] <= p.past[s]-j {
			p.first, p.past = append(p.first, p.first[s]), append(p.past, j)
			p.first[s] = j
		} else {
			p.first, p.past = append(p.first, j), append(p.past, p.past[s])
			p.past[s] = j
		}
		n := int32(len(p.first) - 1)
		for i := p.first[n]; i < p.past[n]; i++ {
			p.set[p.elements[i]] = n
		}
		p.marked[s] = 0
		p.marked = append(p.marked, 0)
	}
	p.touched = p.touched[:0]
}
