package structure

import (
	"fmt"

	"endoscope/operators/encoders"
)

// MergeRule says when two states of an automaton are one: what their k-tails,
// the sequences of length k that can follow them, must have in common.
type MergeRule uint8

// Merge rules, from the smallest automaton to the largest.
const (
	Shared   MergeRule = iota // at least one k-tail (Reiss and Renieris)
	Included                  // all that one of them has (Cook and Wolf)
	Equal                     // all (Biermann and Feldman's k-tails)
)

var mergeRules = [...]string{Shared: "shared", Included: "included", Equal: "equal"}

func (r MergeRule) String() string { return mergeRules[r] }

// ParseMergeRule is the rule of that name, and whether there is one.
func ParseMergeRule(name string) (MergeRule, bool) {
	for r, n := range mergeRules {
		if n == name {
			return MergeRule(r), true
		}
	}
	return 0, false
}

// AutomatonOptions say what automaton to infer.
type AutomatonOptions struct {
	// K is the length of the tails that tell states apart: with 1 states are
	// one if the same symbol follows them; the larger, the more states. The
	// paper found 3 to be a good compromise. 1 to MaxK.
	K int
	// NoLoops is the basic algorithm, without the two modifications that make a
	// symbol that follows itself fewer than K times a loop all the same.
	NoLoops bool
	Rule    MergeRule
}

// MaxK is the largest K of an automaton.
const MaxK = 32

func (o AutomatonOptions) check() error {
	if o.K < 1 || o.K > MaxK {
		return fmt.Errorf("an automaton's tails have a length of 1 to %d, not %d", MaxK, o.K)
	}
	return nil
}

// AutomatonEncoder infers a deterministic finite automaton that accepts a
// sequence, from the sequence alone (Reiss and Renieris, section 4.3).
//
// The sequence is read with k symbols of foresight. At a state q and a symbol x
// that leads to a position with the tail t, the next state is the one that has
// t; else where q goes with x; else q itself if the symbol before was x too
// (the first modification); else a new state. It then has t. Where q goes with
// x to another state than that of t, the two are merged: each tail belongs to
// one state, and each state goes with a symbol to one state.
//
// Under Included and Equal, tails that were seen do not lead back: the sequence
// becomes a chain (of several sequences: a prefix tree), since what follows a
// state is known only in the end. That takes memory for each symbol.
//
// What merges states by all the tails that they turn out to have, and minimises
// the result, is [Automaton].
type AutomatonEncoder struct {
	encoders.Intake
	options AutomatonOptions

	m       *machine
	tails   *tails          // nil under Included and Equal
	at      int32           // the state reached
	last    encoders.Symbol // the symbol that led there
	taken   int64           // symbols that m has
	pending []encoders.Symbol
	times   []int64 // of pending, if timed
}

// NewAutomatonEncoder returns an encoder of sequences over a.
func NewAutomatonEncoder(a *encoders.Alphabet, o AutomatonOptions, l encoders.Limits) (*AutomatonEncoder, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	e := &AutomatonEncoder{Intake: encoders.Intake{Alphabet: a, Limits: l}, options: o, m: newMachine(), last: encoders.End}
	if o.Rule == Shared {
		e.tails = newTails(o.K)
	}
	return e, nil
}

// Append implements [Encoder].
func (e *AutomatonEncoder) Append(symbols []encoders.Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *AutomatonEncoder) encode(symbols []encoders.Symbol, times []int64) {
	e.pending = append(e.pending, symbols...)
	e.times = append(e.times, times...)
	e.advance()
}

// advance takes the pending symbols whose tails are known.
func (e *AutomatonEncoder) advance() {
	k := e.options.K
	n := len(e.pending) - k
	if n <= 0 {
		return
	}
	e.begin(e.pending[:k])
	for i := range n {
		e.step(i, e.pending[i+1:i+1+k])
	}
	e.drop(n)
}

// drop forgets the first n pending symbols.
func (e *AutomatonEncoder) drop(n int) {
	e.pending = e.pending[:copy(e.pending, e.pending[n:])]
	if len(e.times) > 0 {
		e.times = e.times[:copy(e.times, e.times[n:])]
	}
}

// begin gives the first tail to the start state.
func (e *AutomatonEncoder) begin(tail []encoders.Symbol) {
	if e.taken == 0 && e.tails != nil && tail != nil {
		_, slot, hash := e.tails.find(tail)
		e.tails.put(tail, slot, hash, e.at)
	}
}

// step takes pending symbol i. tail is the k symbols behind it, nil where a
// truncated sequence does not say.
func (e *AutomatonEncoder) step(i int, tail []encoders.Symbol) {
	m, x := e.m, e.pending[i]
	arc := m.arc(e.at, x)
	n, slot, hash := none, 0, uint32(0)
	known := e.tails != nil && tail != nil
	if known {
		n, slot, hash = e.tails.find(tail)
	}
	switch {
	case n != none && arc != none:
		if to := m.root(e.tails.states[n]); to != m.root(m.arcs[arc].to) {
			from := e.at
			m.merge(m.arcs[arc].to, to)
			arc = m.arc(m.root(from), x) // the merge may have freed it
		}
	case arc != none:
	case n != none:
		arc = m.connect(e.at, x, m.root(e.tails.states[n]), e.taken)
	case !e.options.NoLoops && e.last == x:
		arc = m.connect(e.at, x, e.at, e.taken)
	default:
		arc = m.connect(e.at, x, m.state(), e.taken)
	}
	a := &m.arcs[arc]
	if len(e.times) > 0 {
		a.stats.Add(e.times[i])
	} else {
		a.stats.Count++
	}
	e.at, e.last = m.root(a.to), x
	e.taken++
	if known && n == none {
		e.tails.put(tail, slot, hash, e.at)
	}
}

// finish takes the pending symbols, behind which the sequence ends or was cut.
func (e *AutomatonEncoder) finish(cut bool) {
	k := e.options.K
	n := len(e.pending)
	var tail func(i int) []encoders.Symbol
	if cut {
		tail = func(i int) []encoders.Symbol {
			if i+k > n {
				return nil
			}
			return e.pending[i : i+k]
		}
	} else {
		for range k {
			e.pending = append(e.pending, encoders.End)
		}
		tail = func(i int) []encoders.Symbol { return e.pending[i : i+k] }
	}
	e.begin(tail(0))
	for i := range n {
		e.step(i, tail(i+1))
	}
	if cut {
		return
	}
	arc := e.m.arc(e.at, encoders.End)
	if arc == none {
		arc = e.m.connect(e.at, encoders.End, finalState, e.taken)
	}
	e.m.arcs[arc].stats.Count++
}

// Bytes implements [Encoder].
func (e *AutomatonEncoder) Bytes() int64 {
	n := e.m.bytes() + int64(4*cap(e.pending)+8*cap(e.times))
	if e.tails != nil {
		n += e.tails.bytes()
	}
	return n
}

// Encode implements [Encoder]: it gives an [*Automaton]. A sequence of which
// the budget left only a prefix has no end.
func (e *AutomatonEncoder) Encode() encoders.Encoding {
	c := *e
	c.m = e.m.clone()
	if e.tails != nil {
		c.tails = e.tails.clone()
	}
	c.pending = append([]encoders.Symbol(nil), e.pending...)
	c.finish(e.Truncated || e.Full)
	return newAutomaton(e.options, e.Alphabet.Names(), e.Source(), c.m, c.tails)
}
