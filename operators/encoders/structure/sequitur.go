package structure

import (
	"endoscope/operators/encoders"
)

// sequitur builds a context-free grammar of a growing sequence (Nevill-Manning and Witten:
// Identifying hierarchical structure in sequences, JAIR 7, 1997). After each step
//
//   - the start rule derives the sequence,
//   - no digram occurs twice, except overlapping ones (xxx),
//   - every other rule is used at least twice, and has at least two symbols.
//
// Right-hand sides are rings of nodes in one array, each closed by the rule's guard. Nodes
// and rules are reused, so the memory is proportional to the grammar and nothing is
// allocated per symbol.
type sequitur struct {
	nodes     []node
	freeNode  uint32 // a list by next; 0: none
	rules     []rule // 0 is the start rule
	freeRules []uint32
	digrams   digrams
	// restricted leaves alone digrams that would return from a call outside them.
	restricted bool
	// took holds, if times are known, the duration of each node's symbol, or NoTime if the
	// node represents several occurrences because its rule is used more than once; stats is
	// indexed by rule.
	took  []int64
	stats []encoders.Stats
}

// node is an occurrence of a symbol in a right-hand side.
type node struct{ value, prev, next uint32 }

// Values of nodes: a symbol, or
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

// timed makes the grammar keep times. It must be called before the first symbol.
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

// alloc allocates an unlinked node. It counts no use.
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

// link inserts n after left.
func (g *sequitur) link(left, n uint32) {
	right := g.nodes[left].next
	g.nodes[n].prev, g.nodes[n].next = left, right
	g.nodes[left].next, g.nodes[right].prev = n, n
}

// free releases a node. It is marked as a guard, so that it is not part of a digram.
func (g *sequitur) free(n uint32) {
	g.nodes[n] = node{value: guardBit, next: g.freeNode}
	g.freeNode = n
}

// check looks for another occurrence of the digram at d and reports whether it changed the
// grammar.
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

// match merges the digram at d with the equal, older one at m.
func (g *sequitur) match(d, m uint32) {
	r, whole := g.wholeRule(m)
	if !whole {
		r = g.makeRule(m)
		g.substitute(m, r)
	}
	g.substitute(d, r)
	// The digram's symbols have one use less now: the first may now be used only here (it
	// is never the second). The substitution may have caused others, and r may be gone or
	// reused by now; checking it is harmless.
	if g.rules[r].guard == 0 {
		return
	}
	if first := g.nodes[g.rules[r].guard].next; g.usedOnce(first) {
		g.inline(first)
	}
}

// wholeRule returns the rule whose whole right-hand side is the digram at m.
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

// makeRule makes a rule of the digram at m and moves its index entry to the rule.
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

// substitute replaces the digram at s by rule r and checks the new digrams.
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
	// Of three equal symbols, the remaining digram was not indexed.
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

// time sets the duration of node s to that of its digram with t, and counts it as an
// occurrence of r.
func (g *sequitur) time(s, t, r uint32) {
	if g.took[s] == encoders.NoTime || g.took[t] == encoders.NoTime {
		g.took[s] = encoders.NoTime
		return
	}
	g.took[s] += g.took[t]
	g.stats[r].Add(g.took[s])
}

// forget removes the digram at d from the index if it is there.
func (g *sequitur) forget(d uint32) {
	a, b := g.nodes[d].value, g.nodes[g.nodes[d].next].value
	if !isGuard(a) && !isGuard(b) {
		g.digrams.remove(a, b, d)
	}
}

// index adds the digram at d to the index unless an equal one is there.
func (g *sequitur) index(d uint32) {
	a, b := g.nodes[d].value, g.nodes[g.nodes[d].next].value
	if g.restricted && g.balanceOf(a).then(g.balanceOf(b)).min < 0 {
		return
	}
	if m, slot := g.digrams.find(g.nodes, a, b); m == 0 {
		g.digrams.put(slot, a, b, d)
	}
}

// inline replaces x, the only use of its rule, by the rule's right-hand side.
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

// bytes returns the approximate memory of the grammar in bytes.
func (g *sequitur) bytes() int64 {
	n := 12*cap(g.nodes) + 16*cap(g.rules) + 8*len(g.digrams.slots) + 8*cap(g.took) + 48*cap(g.stats) + 4*cap(g.freeRules)
	return int64(n)
}
