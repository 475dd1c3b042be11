package structure

import (
	"cmp"
	"slices"

	"endoscope/operators/encoders"
)

// reduced returns f with states merged by the rule of o until no pair qualifies. Merging
// two states merges the targets of their common arcs, so the automaton stays deterministic.
//
// Each round finds all pairs in the current automaton and merges them together, so the
// result does not depend on the numbering of states.
func (f *fsa) reduced(o AutomatonOptions) *fsa {
	m := newMachine()
	m.add(f, nil)
	for {
		var states []int32
		f, states, _ = m.snapshot()
		r := newRound(f, o)
		switch o.Rule {
		case Shared:
			r.shared()
		case Included:
			r.alike()
			r.included()
		case Equal:
			r.alike()
		}
		if !r.found {
			return f
		}
		for q, p := range r.parent {
			if int32(q) != p {
				m.merge(states[q], states[p])
			}
		}
	}
}

// round is one search for states to merge.
type round struct {
	*fsa
	k      int
	loops  bool
	reach  []int8 // by state: length of the longest sequence from it, at most k
	parent []int32
	found  bool
}

func newRound(f *fsa, o AutomatonOptions) *round {
	r := &round{fsa: f, k: o.K, loops: !o.NoLoops, reach: make([]int8, f.len()), parent: make([]int32, f.len())}
	for q := range r.parent {
		r.parent[q] = int32(q)
	}
	// Only a cut sequence has states without outgoing arcs.
	r.reach[f.final] = int8(r.k) // End repeats forever after it
	for d := range int8(r.k) {
		for q := range f.len() {
			if r.reach[q] == d && slices.ContainsFunc(f.arcsFrom(int32(q)), func(a fsaArc) bool { return r.reach[a.to] >= d }) {
				r.reach[q] = d + 1
			}
		}
	}
	return r
}

// root returns the representative of the states to be merged with q.
func (r *round) root(q int32) int32 {
	for r.parent[q] != q {
		r.parent[q] = r.parent[r.parent[q]]
		q = r.parent[q]
	}
	return q
}

// unite records that p and q are to be merged.
func (r *round) unite(p, q int32) {
	if p, q = r.root(p), r.root(q); p != q {
		r.parent[max(p, q)] = min(p, q)
		r.found = true
	}
}

// walker is the end of a path from one or two states. With two, other is the one whose own
// target this is (see exempt), or none.
type walker struct {
	at, origin, other int32
}

// shared finds the states that have a path of k symbols in common.
//
// All paths shared by two or more states are followed at once, depth first. If the paths of
// two states lead to one state, they share the rest too, and only one of them is followed.
func (r *round) shared() {
	type step struct {
		symbol   encoders.Symbol
		to, from int32
	}
	var steps []step
	for q := range r.len() {
		for _, a := range r.arcsFrom(int32(q)) {
			if int(r.reach[a.to]) >= r.k-1 {
				steps = append(steps, step{a.symbol, a.to, int32(q)})
			}
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.symbol, b.symbol), cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from))
	})
	var walkers []walker
	for i := 0; i < len(steps); {
		x := steps[i].symbol
		walkers = walkers[:0]
		for i < len(steps) && steps[i].symbol == x {
			w := walker{steps[i].to, none, none}
			for ; i < len(steps) && steps[i].symbol == x && steps[i].to == w.at; i++ {
				switch q := steps[i].from; {
				case r.loops && q == w.at:
					// The second modification: a loop of x at q does not distinguish states
					// that lead to q on x.
					w.other = q
				case w.origin == none:
					w.origin = q
				default:
					r.unite(w.origin, q)
				}
			}
			if w.origin == none {
				w.origin, w.other = w.other, none
			}
			walkers = append(walkers, w)
		}
		r.follow(walkers, r.k-1)
	}
}

// follow looks for paths of d more symbols that walkers share. The walkers are at different
// states.
func (r *round) follow(walkers []walker, d int) {
	if len(walkers) < 2 || r.together(walkers) {
		return
	}
	if d == 0 {
		r.uniteAll(walkers)
		return
	}
	type step struct {
		symbol encoders.Symbol
		walker
	}
	var steps []step
	for _, w := range walkers {
		for _, a := range r.arcsFrom(w.at) {
			if int(r.reach[a.to]) >= d-1 {
				steps = append(steps, step{a.symbol, walker{a.to, w.origin, w.other}})
			}
		}
	}
	slices.SortFunc(steps, func(a, b step) int {
		return cmp.Or(cmp.Compare(a.symbol, b.symbol), cmp.Compare(a.at, b.at))
	})
	next := make([]walker, 0, len(walkers))
	for i := 0; i < len(steps); {
		x := steps[i].symbol
		next = next[:0]
		for ; i < len(steps) && steps[i].symbol == x; i++ {
			w := steps[i].walker
			if n := len(next); n > 0 && next[n-1].at == w.at {
				r.uniteAll([]walker{next[n-1], w})
				continue
			}
			next = append(next, w)
		}
		r.follow(next, d-1)
	}
}

// together reports whether the origins of walkers are already merged.
func (r *round) together(walkers []walker) bool {
	first := r.root(walkers[0].origin)
	for _, w := range walkers {
		if r.root(w.origin) != first || w.other != none && r.root(w.other) != first {
			return false
		}
	}
	return true
}

func (r *round) uniteAll(walkers []walker) {
	for _, w := range walkers {
		r.unite(walkers[0].origin, w.origin)
		if w.other != none {
			r.unite(walkers[0].origin, w.other)
		}
	}
}

// treeArc is an arc of a tree of futures: the paths that begin with the symbol.
type treeArc struct {
	symbol encoders.Symbol
	tree   int32
}

// futures numbers the sets of paths of k symbols from each state. The automaton is
// deterministic, so such a set is a tree, and equal trees get equal numbers. 0 is the empty
// set. trees holds the trees of every depth.
func (r *round) futures() (of []int32, trees [][]treeArc) {
	const ever = 1 // End, repeated forever
	trees = [][]treeArc{nil, {{encoders.End, 1}}}
	numbers := map[string]int32{}
	of = make([]int32, r.len())
	for q := range of {
		of[q] = ever // depth 0 has one tree, the empty path
	}
	next := make([]int32, r.len())
	var arcs []treeArc
	var key []byte
	for range r.k {
		for q := range of {
			arcs, key = arcs[:0], key[:0]
			for _, a := range r.arcsFrom(int32(q)) {
				if t := of[a.to]; t != 0 {
					arcs = append(arcs, treeArc{a.symbol, t})
					key = appendUint32(appendUint32(key, a.symbol), uint32(t))
				}
			}
			switch {
			case int32(q) == r.final || len(arcs) == 1 && arcs[0] == treeArc{encoders.End, ever}:
				next[q] = ever
				continue
			case len(arcs) == 0:
				next[q] = 0
				continue
			}
			n, ok := numbers[string(key)]
			if !ok {
				n = int32(len(trees))
				numbers[string(key)] = n
				trees = append(trees, slices.Clone(arcs))
			}
			next[q] = n
		}
		of, next = next, of
	}
	return of, trees
}

func appendUint32(b []byte, x uint32) []byte {
	return append(b, byte(x), byte(x>>8), byte(x>>16), byte(x>>24))
}

// alike merges the states that have equal sets of paths.
func (r *round) alike() {
	of, _ := r.futures()
	for _, states := range r.byFuture(of) {
		r.uniteSets(states, states)
	}
}

// byFuture groups the states with equal paths, in the order of their first states. The
// final state, and states without a path, are in no group.
func (r *round) byFuture(of []int32) [][]int32 {
	at := map[int32]int{}
	var sets [][]int32
	for q, n := range of {
		if n == 0 || int32(q) == r.final {
			continue
		}
		i, ok := at[n]
		if !ok {
			i = len(sets)
			at[n] = i
			sets = append(sets, nil)
		}
		sets[i] = append(sets[i], int32(q))
	}
	return sets
}

// distinguishes reports whether some path of p, all of whose paths are also paths of q, is
// not ignored by the second modification.
func (r *round) distinguishes(p, q int32) bool {
	if !r.loops {
		return true
	}
	for _, a := range r.arcsFrom(p) {
		if int(r.reach[a.to]) < r.k-1 {
			continue
		}
		to := r.next(q, a.symbol)
		if to != a.to || to != p && to != q {
			return true
		}
	}
	return false
}

// included merges states whose paths are all paths of another state.
func (r *round) included() {
	of, trees := r.futures()
	sets := r.byFuture(of)
	having := map[encoders.Symbol][]int{} // sets with a path that begins with a symbol
	for i, states := range sets {
		for _, a := range trees[of[states[0]]] {
			having[a.symbol] = append(having[a.symbol], i)
		}
	}
	in := inclusion{trees: trees, known: map[[2]int32]bool{}}
	for i, small := range sets {
		var candidates []int // the sets of the rarest symbol
		for j, a := range trees[of[small[0]]] {
			if h := having[a.symbol]; j == 0 || len(h) < len(candidates) {
				candidates = h
			}
		}
		for _, j := range candidates {
			large := sets[j]
			if i == j || !in.holds(of[small[0]], of[large[0]]) {
				continue
			}
			r.uniteSets(small, large)
		}
	}
}

// uniteSets merges the states of small, whose paths are all paths of large, with those of
// large, except pairs for which the second modification ignores every path.
func (r *round) uniteSets(small, large []int32) {
	// Usually the first state of large works and merges them all.
	for _, p := range small {
		for _, q := range large {
			if p != q && r.distinguishes(p, q) {
				r.unite(p, q)
				break
			}
		}
	}
	if r.areOne(small, large) {
		return
	}
	for _, p := range small {
		for _, q := range large {
			if r.root(p) != r.root(q) && r.distinguishes(p, q) {
				r.unite(p, q)
			}
		}
	}
}

// areOne reports whether all states of two sets are to be merged.
func (r *round) areOne(small, large []int32) bool {
	first := r.root(small[0])
	other := func(q int32) bool { return r.root(q) != first }
	return !slices.ContainsFunc(small, other) && !slices.ContainsFunc(large, other)
}

// inclusion determines which trees are subtrees of which.
type inclusion struct {
	trees [][]treeArc
	known map[[2]int32]bool
}

// holds reports whether every path of the tree small is a path of large. Both have the same
// depth.
func (in *inclusion) holds(small, large int32) bool {
	if small == large {
		return true
	}
	a, b := in.trees[small], in.trees[large]
	if len(a) > len(b) {
		return false
	}
	pair := [2]int32{small, large}
	if known, ok := in.known[pair]; ok {
		return known
	}
	holds := true
	for _, s := range a {
		i, ok := slices.BinarySearchFunc(b, s.symbol, func(l treeArc, x encoders.Symbol) int { return cmp.Compare(l.symbol, x) })
		if !ok || !in.holds(s.tree, b[i].tree) {
			holds = false
			break
		}
	}
	in.known[pair] = holds
	return holds
}
