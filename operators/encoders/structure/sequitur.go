package structure

import (
	"endoscope/operators/encoders"
)

// sequitur builds a context-free grammar of a growing sequence (Nevill-Manning
// and Witten: Identifying hierarchical structure in sequences, JAIR 7, 1997).
// After each step
//
//   - the start rule derives the sequence,
//   - no digram occurs twice, but for overlapping ones (xxx),
//   - every other rule is used at least twice, and has at least two symbols.
//
// Right-hand sides are rings of nodes in one array, each closed by the rule's
// guard; nodes and rules that are no longer needed are used again. So the
// memory is proportional to the grammar and nothing is allocated per symbol.
type sequitur struct {
	nodes     []node
	freeNode  uint32 // a list by next; 0: none
	rules     []rule // 0 is the start rule
	freeRules []uint32
	digrams   digrams
	// balance of digrams is watched, and those that would close what they did
	// not open are let be.
	restricted bool
	// took has, if times are known, the time that the symbol of each node took,
	// or NoTime where the node stands for several occurrences, since it is in a
	// rule that is used more than once; stats is of the rules.
	took  []int64
	stats []encoders.Stats
}

// node is an occurrence of a symbol in a right-hand side.
type node struct{ value, prev, next uint32 }

// Values of nodes: symbols, or
const (
	ruleBit  = 1 << 31 // + a rule: a nonterminal
	guardBit = 3 << 30 // + a rule: its guard
)

func isGuard(v uint32) bool { return v >= guardBit }

func isRule(v uint32) bool { return v&guardBit == ruleBit }

type rule struct {
	guard uint32
	uses  uint32
	balance
}

func newSequitur(restricted bool) *sequitur {
	g := &sequitur{
		nodes:      make([]node, 1, 64),
		rules:      make([]rule, 1, 16),
		digrams:    newDigrams(),
		restricted: restricted,
	}
	g.nodes[0] = node{value: guardBit} // of the start rule, prev and next are 0
	return g
}

// timed makes the grammar keep times. It is called before the first symbol.
func (g *sequitur) timed() {
	g.took = make([]int64, 1, 64)
	g.stats = make([]encoders.Stats, 1, 16)
}

// append adds a symbol to the sequence.
func (g *sequitur) append(s encoders.Symbol, t int64) {
	last := g.nodes[0].prev
	g.link(last, g.alloc(s, t))
	if last != 0 {
		g.check(last)
	}
}

// alloc makes a node that is nowhere yet. It counts no use.
func (g *sequitur) alloc(value uint32, t int64) uint32 {
	n := g.freeNode
	if n != 0 {
		g.freeNode = g.nodes[n].next
		g.nodes[n] = node{value, n, n}
	} else {
		n = uint32(len(g.nodes))
		g.nodes = append(g.nodes, node{value, n, n})
		if g.took != nil {
			g.took = append(g.took, 0)
		}
	}
	if g.took != nil {
		g.took[n] = t
	}
	return n
}

// link puts n behind left.
func (g *sequitur) link(left, n uint32) {
	right := g.nodes[left].next
	g.nodes[n].prev, g.nodes[n].next = left, right
	g.nodes[left].next, g.nodes[right].prev = n, n
}

// free gives a node back. It looks like a guard from now on, so that nothing is
// taken for a digram there.
func (g *sequitur) free(n uint32) {
	g.nodes[n] = node{value: guardBit, next: g.freeNode}
	g.freeNode = n
}

// check looks whether the digram at d occurs elsewhere, and reports whether it
// changed the grammar.
func (g *sequitur) check(d uint32) bool {
	a := g.nodes[d].value
	next := g.nodes[d].next
	b := g.nodes[next].value
	if isGuard(a) || isGuard(b) {
		return false
	}
	if g.restricted && g.balanceOf(a).then(g.balanceOf(b)).min < 0 {
		return false
	}
	m, slot := g.digrams.find(g.nodes, a, b)
	if m == 0 {
		g.digrams.put(slot, a, b, d)
		return false
	}
	if m == d || m == next || g.nodes[m].next == d {
		return false
	}
	g.match(d, m)
	return true
}

// match makes one of the digram at d and the equal one at m, which is older.
func (g *sequitur) match(d, m uint32) {
	r, whole := g.wholeRule(m)
	if !whole {
		r = g.makeRule(m)
		g.substitute(m, r)
	}
	g.substitute(d, r)
	// The digram's symbols are used once less now: the first may be used here
	// alone (it is never the second). The substitution may have led on to others,
	// and r may be gone, or another rule, by now: looking does no harm.
	if g.rules[r].guard == 0 {
		return
	}
	if first := g.nodes[g.rules[r].guard].next; g.usedOnce(first) {
		g.inline(first)
	}
}

// wholeRule is the rule whose right-hand side is the digram at m, if it is one's.
func (g *sequitur) wholeRule(m uint32) (r uint32, ok bool) {
	before := g.nodes[m].prev
	after := g.nodes[g.nodes[m].next].next
	if before == 0 || before != after { // the guard of a rule, but not of the start rule
		return 0, false
	}
	return g.nodes[before].value &^ guardBit, true
}

func (g *sequitur) usedOnce(n uint32) bool {
	v := g.nodes[n].value
	return isRule(v) && g.rules[v&^ruleBit].uses == 1
}

// makeRule makes a rule of the digram at m, and moves its index entry there.
func (g *sequitur) makeRule(m uint32) uint32 {
	var r uint32
	if n := len(g.freeRules); n > 0 {
		r = g.freeRules[n-1]
		g.freeRules = g.freeRules[:n-1]
	} else {
		r = uint32(len(g.rules))
		g.rules = append(g.rules, rule{})
		if g.stats != nil {
			g.stats = append(g.stats, encoders.Stats{})
		}
	}
	if g.stats != nil {
		g.stats[r] = encoders.Stats{}
	}
	a, b := g.nodes[m].value, g.nodes[g.nodes[m].next].value
	guard, first, last := g.alloc(guardBit|r, encoders.NoTime), g.alloc(a, encoders.NoTime), g.alloc(b, encoders.NoTime)
	g.link(guard, first)
	g.link(first, last)
	g.rules[r] = rule{guard: guard, balance: g.balanceOf(a).then(g.balanceOf(b))}
	g.use(a)
	g.use(b)
	_, slot := g.digrams.find(g.nodes, a, b)
	g.digrams.put(slot, a, b, first)
	return r
}

func (g *sequitur) use(v uint32) {
	if isRule(v) {
		g.rules[v&^ruleBit].uses++
	}
}

func (g *sequitur) disuse(v uint32) {
	if isRule(v) {
		g.rules[v&^ruleBit].uses--
	}
}

// substitute puts rule r in the place of the digram at s, and checks the
// digrams that this makes.
func (g *sequitur) substitute(s, r uint32) {
	t := g.nodes[s].next
	left, right := g.nodes[s].prev, g.nodes[t].next
	g.forget(left)
	g.forget(s)
	g.forget(t)
	g.disuse(g.nodes[s].value)
	g.disuse(g.nodes[t].value)
	if g.took != nil {
		g.time(s, t, r)
	}
	was := [2]uint32{g.nodes[s].value, g.nodes[t].value}
	g.nodes[s].value, g.nodes[s].next = ruleBit|r, right
	g.nodes[right].prev = s
	g.free(t)
	g.rules[r].uses++
	// Where three equal symbols stood, the digram that is left was not indexed.
	if l := g.nodes[left]; l.value == was[0] && g.nodes[l.prev].value == was[0] {
		g.index(l.prev)
	}
	if n := g.nodes[right]; n.value == was[1] && g.nodes[n.next].value == was[1] {
		g.index(right)
	}
	if !g.check(left) {
		g.check(s)
	}
}

// time gives the node s the time of its digram with t, and counts it as that
// of an occurrence of r.
func (g *sequitur) time(s, t, r uint32) {
	if g.took[s] == encoders.NoTime || g.took[t] == encoders.NoTime {
		g.took[s] = encoders.NoTime
		return
	}
	g.took[s] += g.took[t]
	g.stats[r].Add(g.took[s])
}

// forget takes the digram at d out of the index if it is there.
func (g *sequitur) forget(d uint32) {
	a, b := g.nodes[d].value, g.nodes[g.nodes[d].next].value
	if !isGuard(a) && !isGuard(b) {
		g.digrams.remove(a, b, d)
	}
}

// index puts the digram at d into the index unless an equal one is there.
func (g *sequitur) index(d uint32) {
	a, b := g.nodes[d].value, g.nodes[g.nodes[d].next].value
	if g.restricted && g.balanceOf(a).then(g.balanceOf(b)).min < 0 {
		return
	}
	if m, slot := g.digrams.find(g.nodes, a, b); m == 0 {
		g.digrams.put(slot, a, b, d)
	}
}

// inline puts the right-hand side of the rule that x is the only use of in the
// place of x.
func (g *sequitur) inline(x uint32) {
	r := g.nodes[x].value &^ ruleBit
	left, right := g.nodes[x].prev, g.nodes[x].next
	g.forget(left)
	g.forget(x)
	guard := g.rules[r].guard
	first, last := g.nodes[guard].next, g.nodes[guard].prev
	g.nodes[left].next, g.nodes[first].prev = first, left
	g.nodes[last].next, g.nodes[right].prev = right, last
	g.free(x)
	g.free(guard)
	g.rules[r] = rule{}
	g.freeRules = append(g.freeRules, r)
	g.check(last)
	g.check(left)
}

// bytes is about how much memory the grammar holds.
func (g *sequitur) bytes() int64 {
	n := 12*cap(g.nodes) + 16*cap(g.rules) + 8*len(g.digrams.slots) + 8*cap(g.took) + 48*cap(g.stats) + 4*cap(g.freeRules)
	return int64(n)
}
