package structure

import (
	"slices"
	"strconv"

	"endoscope/operators/encoders"
)

// stateTrack follows a sequence through an automaton: in one state, or, if the sequence may
// have begun in any state, in all possible ones.
type stateTrack struct {
	*transitions
	states []int32
	next   []int32 // scratch
}

func newStateTrack(d *transitions, anywhere bool) *stateTrack {
	f := d.f
	t := &stateTrack{transitions: d, states: []int32{0}}
	if anywhere {
		for q := int32(1); int(q) < f.len(); q++ {
			if q != f.final {
				t.states = append(t.states, q)
			}
		}
	}
	return t
}

func (t *stateTrack) step(x encoders.Symbol) bool {
	if len(t.states) == 1 {
		q := t.to(t.states[0], x)
		if q == none {
			return false
		}
		t.states[0] = q
		return true
	}
	t.next = t.next[:0]
	for _, q := range t.states {
		if to := t.to(q, x); to != none {
			t.next = append(t.next, to)
		}
	}
	if len(t.next) == 0 {
		return false
	}
	slices.Sort(t.next)
	t.next = slices.Compact(t.next)
	t.states, t.next = t.next, t.states
	return true
}

func (t *stateTrack) expected() []encoders.Symbol {
	var all []encoders.Symbol
	seen := map[encoders.Symbol]bool{}
	for _, q := range t.states {
		for _, a := range t.f.arcsFrom(q) {
			if !seen[a.symbol] {
				seen[a.symbol] = true
				all = append(all, a.symbol)
			}
		}
	}
	return all
}

func (t *stateTrack) bytes() int64 { return 4 * int64(cap(t.states)+cap(t.next)) }

func (t *stateTrack) clone() track {
	return &stateTrack{transitions: t.transitions, states: slices.Clone(t.states)}
}

// transitions is an automaton prepared for fast traversal.
type transitions struct {
	f     *fsa
	width int     // row length of table: the symbols, then End
	table []int32 // by state and symbol; nil if it would be too large
}

// largestTable is the largest number of entries in a table of transitions: 4 MiB.
const largestTable = 1 << 20

func newTransitions(f *fsa, symbols int) *transitions {
	d := &transitions{f: f, width: symbols + 1}
	if f.len()*d.width > largestTable {
		return d
	}
	d.table = make([]int32, f.len()*d.width)
	for i := range d.table {
		d.table[i] = none
	}
	for q := range f.len() {
		for _, a := range f.arcsFrom(int32(q)) {
			d.table[q*d.width+d.column(a.symbol)] = a.to
		}
	}
	return d
}

func (d *transitions) column(x encoders.Symbol) int {
	if x == encoders.End {
		return d.width - 1
	}
	return int(x)
}

// to returns the target of q on x, or none.
func (d *transitions) to(q int32, x encoders.Symbol) int32 {
	if d.table == nil {
		return d.f.next(q, x)
	}
	return d.table[int(q)*d.width+d.column(x)]
}

// derivation follows a sequence through a grammar: all possible derivations so far. Each
// start string adds one, and so does each long run that may end or continue here.
type derivation struct {
	g       *Grammar
	cursors []*cursor
}

// cursor is a position before an item of a production, after done repetitions of it; above
// is where the production itself is used. The position after the last item of a start
// string expects End.
type cursor struct {
	production, item int
	done             int64 // repetitions; for a long run, counted up to the cutoff plus one
	above            *cursor
}

// mostCursors bounds the derivations followed. Beyond it, the sequence conforms as long as
// one of the remaining derivations does.
const mostCursors = 1 << 12

func newDerivation(g *Grammar) *derivation {
	d := &derivation{g: g}
	for p := range min(g.starts, mostCursors) {
		d.enter(&cursor{production: p}, &d.cursors)
	}
	d.cursors = d.distinct(d.cursors)
	return d
}

// enter adds the terminal positions that c expands to: each is before a terminal or past
// the end.
func (d *derivation) enter(c *cursor, to *[]*cursor) {
	for {
		items := d.g.rightSide(c.production)
		if c.item == len(items) {
			if c.above == nil {
				*to = append(*to, c)
				return
			}
			d.repeated(c.above, to)
			return
		}
		if v := items[c.item].value; isRule(v) {
			c = &cursor{production: int(v &^ ruleBit), above: c}
			continue
		}
		*to = append(*to, c)
		return
	}
}

// repeated adds the cursors after one repetition of the item at c.
func (d *derivation) repeated(c *cursor, to *[]*cursor) {
	it := d.g.rightSide(c.production)[c.item]
	done := c.done + 1
	again, on := done < it.n, done >= it.n
	if it.n == 0 { // a long run
		done = min(done, int64(d.g.options.Cutoff)+1)
		again, on = true, done > int64(d.g.options.Cutoff)
	}
	if again {
		d.enter(&cursor{c.production, c.item, done, c.above}, to)
	}
	if on {
		d.enter(&cursor{c.production, c.item + 1, 0, c.above}, to)
	}
}

// at returns the symbol that the grammar expects at a cursor returned by enter.
func (d *derivation) at(c *cursor) encoders.Symbol {
	items := d.g.rightSide(c.production)
	if c.item == len(items) {
		return encoders.End
	}
	return items[c.item].value
}

func (d *derivation) step(x encoders.Symbol) bool {
	var next []*cursor
	for _, c := range d.cursors {
		switch {
		case d.at(c) != x:
		case x == encoders.End:
			next = append(next, c)
		default:
			d.repeated(c, &next)
		}
	}
	if len(next) == 0 {
		return false
	}
	d.cursors = d.distinct(next)
	return true
}

// distinct removes duplicate cursors.
func (d *derivation) distinct(all []*cursor) []*cursor {
	if len(all) < 2 {
		return all
	}
	seen := map[string]bool{}
	kept := all[:0]
	var key []byte
	for _, c := range all {
		key = key[:0]
		for at := c; at != nil; at = at.above {
			key = strconv.AppendInt(append(key, ' '), int64(at.production), 36)
			key = strconv.AppendInt(append(key, ' '), int64(at.item), 36)
			key = strconv.AppendInt(append(key, ' '), at.done, 36)
		}
		if !seen[string(key)] && len(kept) < mostCursors {
			seen[string(key)] = true
			kept = append(kept, c)
		}
	}
	return kept
}

func (d *derivation) expected() []encoders.Symbol {
	var all []encoders.Symbol
	for _, c := range d.cursors {
		if x := d.at(c); !slices.Contains(all, x) {
			all = append(all, x)
		}
	}
	return all
}

func (d *derivation) bytes() int64 { return 100 * int64(len(d.cursors)) }

func (d *derivation) clone() track { return &derivation{g: d.g, cursors: slices.Clone(d.cursors)} }
