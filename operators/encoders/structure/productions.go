package structure

import (
	"slices"

	"endoscope/operators/encoders"
)

// item is n repetitions of a symbol or, with ruleBit, of a rule, in a right-hand side.
type item struct {
	value uint32
	n     int64 // 0: a long run, above the cutoff
}

// productions holds the right-hand sides of a grammar. Start strings come first, one per
// sequence; the rest are rules. A rule is numbered after its first user, in reading order
// from the first start string.
type productions struct {
	starts int
	items  []item
	ends   []int            // end of each production in items
	stats  []encoders.Stats // of each production
}

// rightSide returns the items of production p.
func (g *productions) rightSide(p int) []item {
	from := 0
	if p > 0 {
		from = g.ends[p-1]
	}
	return g.items[from:g.ends[p]:g.ends[p]]
}

// numbering numbers rules in the order of their first use.
type numbering struct {
	numbers []uint32 // by old number; 0: none yet (starts have no old number)
	order   []uint32 // old numbers
	starts  int
}

// renumber returns v, with its new number if it is a rule.
func (o *numbering) renumber(v uint32) uint32 {
	if !isRule(v) {
		return v
	}
	old := v &^ ruleBit
	if o.numbers[old] == 0 {
		o.numbers[old] = uint32(o.starts + len(o.order))
		o.order = append(o.order, old)
	}
	return ruleBit | o.numbers[old]
}

// productions returns the productions of the current grammar.
func (g *sequitur) productions() *productions {
	live := len(g.rules) - len(g.freeRules)
	p := &productions{starts: 1, ends: make([]int, 0, live), stats: make([]encoders.Stats, live)}
	order := numbering{numbers: make([]uint32, len(g.rules)), order: make([]uint32, 0, live), starts: 1}
	for i := -1; i < len(order.order); i++ {
		guard := uint32(0)
		if i >= 0 {
			old := order.order[i]
			guard = g.rules[old].guard
			if g.stats != nil {
				p.stats[1+i] = g.stats[old]
			}
		}
		for n := g.nodes[guard].next; n != guard; n = g.nodes[n].next {
			p.items = append(p.items, item{order.renumber(g.nodes[n].value), 1})
		}
		p.ends = append(p.ends, len(p.items))
	}
	return p
}

// place is a position in a right-hand side during a walk.
type place struct {
	production int
	rest       []item // the items from there on
}

// upward visits every rule once, after the rules it uses. It does not recurse: a DAG of
// calls is as deep as the call stack was.
func (g *productions) upward(visit func(p int)) {
	seen := make([]bool, len(g.ends))
	var stack []place
	for start := range g.starts {
		stack = append(stack, place{start, g.rightSide(start)})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if len(top.rest) == 0 {
				if top.production >= g.starts {
					visit(top.production)
				}
				stack = stack[:len(stack)-1]
				continue
			}
			v := top.rest[0].value
			top.rest = top.rest[1:]
			if r := v &^ ruleBit; isRule(v) && !seen[r] {
				seen[r] = true
				stack = append(stack, place{int(r), g.rightSide(int(r))})
			}
		}
	}
}

// derive yields the symbols that production p derives.
func (g *productions) derive(p int, yield func(encoders.Symbol) bool) {
	type repeated struct {
		place
		more int64 // remaining repetitions of rest[0]
	}
	begin := func(p int) repeated {
		r := repeated{place: place{p, g.rightSide(p)}}
		if len(r.rest) > 0 {
			r.more = r.rest[0].n
		}
		return r
	}
	stack := []repeated{begin(p)}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.rest) == 0 {
			stack = stack[:len(stack)-1]
			continue
		}
		if top.more == 0 {
			if top.rest = top.rest[1:]; len(top.rest) > 0 {
				top.more = top.rest[0].n
			}
			continue
		}
		v := top.rest[0].value
		if isRule(v) {
			top.more--
			stack = append(stack, begin(int(v&^ruleBit)))
			continue
		}
		for ; top.more > 0; top.more-- {
			if !yield(v) {
				return
			}
		}
	}
}

// count sets the number of occurrences of each production in the derived sequences. The
// grammar must have no long runs.
func (g *productions) count() {
	order := make([]int, 0, len(g.ends))
	g.upward(func(p int) { order = append(order, p) })
	for p := range g.ends {
		g.stats[p].Count = 0
	}
	add := func(p int) {
		for _, it := range g.rightSide(p) {
			if isRule(it.value) {
				g.stats[it.value&^ruleBit].Count += it.n * g.stats[p].Count
			}
		}
	}
	for p := range g.starts {
		g.stats[p].Count = 1
		add(p)
	}
	for i := len(order) - 1; i >= 0; i-- {
		add(order[i])
	}
}

// balances returns the balances of the productions, which must have no runs.
func (g *productions) balances() []balance {
	bs := make([]balance, len(g.ends))
	g.upward(func(p int) {
		var b balance
		for _, it := range g.rightSide(p) {
			switch {
			case isRule(it.value):
				b = b.then(bs[it.value&^ruleBit])
			case it.value == encoders.Return:
				b = b.then(balance{-1, -1})
			default:
				b = b.then(balance{0, 1})
			}
		}
		bs[p] = b
	})
	return bs
}

// folding builds a grammar bottom-up in which no two rules have equal right-hand sides.
type folding struct {
	rules  [][]item
	stats  []encoders.Stats
	byText map[string]uint32
	key    []byte // scratch
}

// rule returns the number of the rule with that right-hand side and adds the rule if it is
// new. stats are the statistics of the added occurrences.
func (f *folding) rule(rhs []item, stats *encoders.Stats) uint32 {
	f.key = f.key[:0]
	for _, it := range rhs {
		f.key = append(f.key, byte(it.value), byte(it.value>>8), byte(it.value>>16), byte(it.value>>24))
		for n := uint64(it.n); ; n >>= 7 {
			if n < 0x80 {
				f.key = append(f.key, byte(n))
				break
			}
			f.key = append(f.key, byte(n)|0x80)
		}
	}
	r, have := f.byText[string(f.key)]
	if !have {
		r = uint32(len(f.rules))
		f.byText[string(f.key)] = r
		f.rules = append(f.rules, slices.Clone(rhs))
		f.stats = append(f.stats, encoders.Stats{})
	}
	f.stats[r].Merge(stats)
	return r
}

// finish numbers the rules reachable from the start strings, whose statistics are stats,
// and drops the others.
func (f *folding) finish(starts [][]item, stats []encoders.Stats) *productions {
	p := &productions{starts: len(starts), stats: stats}
	order := numbering{numbers: make([]uint32, len(f.rules)), starts: len(starts)}
	add := func(rhs []item) {
		for _, it := range rhs {
			p.items = append(p.items, item{order.renumber(it.value), it.n})
		}
		p.ends = append(p.ends, len(p.items))
	}
	for _, s := range starts {
		add(s)
	}
	for i := 0; i < len(order.order); i++ {
		add(f.rules[order.order[i]])
		p.stats = append(p.stats, f.stats[order.order[i]])
	}
	return p
}

// runFolding is the run-length encoding of a grammar.
type runFolding struct {
	folding
	from     *productions
	cutoff   int64
	results  []item // by rule of from: what replaces one use of it
	expanded []bool // by rule of from: its uses are expanded; nil: none
}

// foldRuns run-length encodes the right-hand sides of g, which must have no runs,
// bottom-up: a rule that is a single run is replaced by it, and rules that have become
// equal are merged. If rules must be fully balanced, the others are expanded where they are
// used.
func foldRuns(g *productions, o GrammarOptions) *productions {
	f := &runFolding{
		folding: folding{byText: map[string]uint32{}}, from: g, cutoff: int64(o.Cutoff),
		results: make([]item, len(g.ends)),
	}
	if o.Balance == FullyBalanced {
		f.expanded = make([]bool, len(g.ends))
		for p, b := range g.balances() {
			f.expanded[p] = b.net != 0
		}
	}
	g.upward(func(p int) {
		if f.expanded != nil && f.expanded[p] {
			return
		}
		rhs := f.fold(nil, p)
		if len(rhs) == 1 {
			f.results[p] = rhs[0]
			return
		}
		f.results[p] = item{ruleBit | f.rule(rhs, &g.stats[p]), 1}
	})
	starts := make([][]item, g.starts)
	for p := range starts {
		starts[p] = f.fold(nil, p)
	}
	return f.finish(starts, g.stats[:g.starts:g.starts])
}

// fold appends the right-hand side of production p to rhs.
func (f *runFolding) fold(rhs []item, p int) []item {
	for _, it := range f.from.rightSide(p) {
		if isRule(it.value) {
			r := int(it.value &^ ruleBit)
			if f.expanded != nil && f.expanded[r] {
				rhs = f.fold(rhs, r)
				continue
			}
			it = f.results[r]
		}
		rhs = appendRunOf(rhs, it, f.cutoff)
	}
	return rhs
}

// appendRunOf appends it to items, or extends the last run of items with it.
func appendRunOf(items []item, it item, cutoff int64) []item {
	last := len(items) - 1
	if last < 0 || items[last].value != it.value {
		return append(items, it)
	}
	n := &items[last].n
	switch {
	case *n == 0 || it.n == 0:
		*n = 0
	default:
		if *n += it.n; cutoff > 0 && *n > cutoff {
			*n = 0
		}
	}
	return items
}
