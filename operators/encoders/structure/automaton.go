package structure

import (
	"fmt"

	"endoscope/operators/encoders"
)

// MergeRule selects when two states of an automaton are merged: what their k-tails, the
// sequences of length k that can follow them, must have in common.
type MergeRule uint8

// Merge rules, from the smallest automaton to the largest.
const (
	Shared   MergeRule = iota // at least one k-tail (Reiss and Renieris)
	Included                  // all k-tails of one of them (Cook and Wolf)
	Equal                     // all k-tails (Biermann and Feldman)
)

var mergeRules = [...]string{Shared: "shared", Included: "included", Equal: "equal"}

func (r MergeRule) String() string { return mergeRules[r] }

// ParseMergeRule returns the rule of that name and whether it exists.
func ParseMergeRule(name string) (MergeRule, bool) {
	for r, n := range mergeRules {
		if n == name {
			return MergeRule(r), true
		}
	}
	return 0, false
}

// AutomatonOptions configure the inferred automaton.
type AutomatonOptions struct {
	// K is the length of the tails that distinguish states: with 1, states followed by the
	// same symbol are merged; a larger K gives more states. The paper found 3 to be a good
	// compromise. 1 to MaxK.
	K int
	// NoLoops selects the basic algorithm, without the two modifications that turn a symbol
	// repeated fewer than K times into a loop.
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

// AutomatonEncoder infers a deterministic finite automaton that accepts a sequence, from
// the sequence alone (Reiss and Renieris, section 4.3).
//
// The sequence is read with k symbols of lookahead. At a state q and a symbol x that leads
// to a position with the tail t, the next state is the state of t, if it exists; else the
// target of q on x; else q itself if the previous symbol was x too (the first
// modification); else a new state. That state then gets t. If q already leads on x to a
// state other than that of t, the two are merged: each tail belongs to one state, and a
// state has one target per symbol.
//
// Under Included and Equal, a known tail does not lead back: the sequence becomes a chain
// (several sequences: a prefix tree), because the tails of a state are complete only at the
// end. That takes memory per symbol.
//
// [Automaton] merges states by their complete tails and minimises the result.
type AutomatonEncoder struct {
	encoders.Intake
	options AutomatonOptions

	m       *machine
	tails   *tails          // nil under Included and Equal
	at      int32           // the current state
	last    encoders.Symbol // the symbol that led to it
	taken   int64           // symbols added to m
	pending []encoders.Symbol
	times   []int64 // of pending, if timed
}

// NewAutomatonEncoder returns an encoder for sequences over a.
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

func (e *AutomatonEncoder) Append(symbols []encoders.Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *AutomatonEncoder) encode(symbols []encoders.Symbol, times []int64) {
	e.pending = append(e.pending, symbols...)
	e.times = append(e.times, times...)
	e.advance()
}

// advance consumes the pending symbols whose tails are known.
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

// drop removes the first n pending symbols.
func (e *AutomatonEncoder) drop(n int) {
	e.pending = e.pending[:copy(e.pending, e.pending[n:])]
	if len(e.times) > 0 {
		e.times = e.times[:copy(e.times, e.times[n:])]
	}
}

// begin assigns the first tail to the start state.
func (e *AutomatonEncoder) begin(tail []encoders.Symbol) {
	if e.taken == 0 && e.tails != nil && tail != nil {
		_, slot, hash := e.tails.find(tail)
		e.tails.put(tail, slot, hash, e.at)
	}
}

// step consumes pending symbol i. tail holds the k symbols after it, or is nil if a
// truncated sequence does not have them.
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

// finish consumes the pending symbols at the end of the sequence; cut reports that the end
// is missing.
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

func (e *AutomatonEncoder) Bytes() int64 {
	n := e.m.bytes() + int64(4*cap(e.pending)+8*cap(e.times))
	if e.tails != nil {
		n += e.tails.bytes()
	}
	return n
}

// Encode implements [Encoder]. It returns an [*Automaton]. If the budget cut the sequence
// to a prefix, it has no end.
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
