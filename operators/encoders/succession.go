package encoders

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// SuccessionEncoder counts the direct predecessors and successors of each symbol. If
// Pf(A|B), the probability that A precedes B, and Pb(C|B), the probability that C follows
// B, are small for every A and C, B is a candidate for a pattern used in many places
// (Hwang, introduction).
type SuccessionEncoder struct {
	Intake
	pairs map[[2]Symbol]int64
	count []int64 // by symbol
	last  Symbol  // End: none yet
}

// NewSuccessionEncoder returns an encoder for a sequence over a.
func NewSuccessionEncoder(a *Alphabet, l Limits) *SuccessionEncoder {
	return &SuccessionEncoder{Intake: Intake{Alphabet: a, Limits: l}, pairs: map[[2]Symbol]int64{}, last: End}
}

// Append implements [Encoder]; it ignores times.
func (e *SuccessionEncoder) Append(symbols []Symbol, _ []int64) {
	e.Consume(symbols, nil, e.encode, e.Bytes)
}

func (e *SuccessionEncoder) encode(symbols []Symbol, _ []int64) {
	for _, s := range symbols {
		for int(s) >= len(e.count) {
			e.count = append(e.count, 0)
		}
		e.count[s]++
		if e.last != End {
			e.pairs[[2]Symbol{e.last, s}]++
		}
		e.last = s
	}
}

func (e *SuccessionEncoder) Bytes() int64 { return 40*int64(len(e.pairs)) + 8*int64(cap(e.count)) }

// Encode implements [Encoder]. It returns a [*Succession].
func (e *SuccessionEncoder) Encode() Encoding {
	s := &Succession{Source: e.Source(), names: e.Alphabet.Names(), symbols: map[Symbol]int64{}, pairs: map[[2]Symbol]int64{}}
	for x, n := range e.count {
		if n > 0 {
			s.symbols[Symbol(x)] = n
		}
	}
	for p, n := range e.pairs {
		s.pairs[p] = n
	}
	return s
}

// Succession holds the counts of each symbol and each pair of neighbours in one or more
// sequences.
type Succession struct {
	Source
	names   []string
	symbols map[Symbol]int64
	pairs   map[[2]Symbol]int64
}

// Neighbours are the neighbours of one symbol.
type Neighbours struct {
	Name   string
	Count  int64       // occurrences
	Before []Neighbour // most probable first
	After  []Neighbour
}

// Neighbour is a symbol that directly precedes or follows another.
type Neighbour struct {
	Name        string
	Count       int64
	Probability float64 // share of the other's occurrences
}

// Candidate returns the largest probability among the neighbours, or 1 if there are none. A
// smaller value means the symbol is used in more places.
func (n *Neighbours) Candidate() float64 {
	p := 0.0
	for _, side := range [][]Neighbour{n.Before, n.After} {
		if len(side) == 0 {
			return 1
		}
		p = max(p, side[0].Probability)
	}
	return p
}

// Symbols returns the symbols with their neighbours, best pattern candidates first: by
// smallest Candidate, most occurrences, name.
func (s *Succession) Symbols() []Neighbours {
	at := map[Symbol]*Neighbours{}
	for x, n := range s.symbols {
		at[x] = &Neighbours{Name: string(AppendName(nil, s.names, x)), Count: n}
	}
	for p, n := range s.pairs {
		a, b := at[p[0]], at[p[1]]
		a.After = append(a.After, Neighbour{b.Name, n, ratio(n, a.Count)})
		b.Before = append(b.Before, Neighbour{a.Name, n, ratio(n, b.Count)})
	}
	all := make([]Neighbours, 0, len(at))
	for _, n := range at {
		for _, side := range [][]Neighbour{n.Before, n.After} {
			slices.SortFunc(side, func(a, b Neighbour) int {
				return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
			})
		}
		all = append(all, *n)
	}
	slices.SortFunc(all, func(a, b Neighbours) int {
		return cmp.Or(cmp.Compare(a.Candidate(), b.Candidate()), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (s *Succession) Merge(others []Encoding) (Encoding, error) {
	a := NewAlphabet()
	m := &Succession{symbols: map[Symbol]int64{}, pairs: map[[2]Symbol]int64{}}
	for _, e := range append([]Encoding{s}, others...) {
		o, ok := e.(*Succession)
		if !ok {
			return nil, ErrUnlike
		}
		m.Source = m.Joined(o.Source)
		symbols := a.Translate(o.names)
		for x, n := range o.symbols {
			m.symbols[symbols[x]] += n
		}
		for p, n := range o.pairs {
			m.pairs[[2]Symbol{symbols[p[0]], symbols[p[1]]}] += n
		}
	}
	m.names = a.Names()
	return m, nil
}

// shownNeighbours is the number of neighbours per side in the text form.
const shownNeighbours = 3

// String returns one line per symbol, best pattern candidates first:
//
//	B 4: before A 0.75 C 0.25; after C 1
func (s *Succession) String() string {
	var lines []string
	for _, n := range s.Symbols() {
		lines = append(lines, fmt.Sprintf("%s %d: before%s; after%s", n.Name, n.Count, side(n.Before), side(n.After)))
	}
	return strings.Join(lines, "\n") + s.Remark()
}

func side(all []Neighbour) string {
	var b strings.Builder
	for i, n := range all {
		if i == shownNeighbours {
			fmt.Fprintf(&b, " and %d more", len(all)-i)
			break
		}
		fmt.Fprintf(&b, " %s %.3g", n.Name, n.Probability)
	}
	if len(all) == 0 {
		return " nothing"
	}
	return b.String()
}

func (s *Succession) MarshalJSON() ([]byte, error) {
	type neighbour struct {
		Symbol      string  `json:"symbol"`
		Count       int64   `json:"count"`
		Probability float64 `json:"probability"`
	}
	type symbol struct {
		Symbol string      `json:"symbol"`
		Count  int64       `json:"count"`
		Before []neighbour `json:"before"`
		After  []neighbour `json:"after"`
	}
	convert := func(side []Neighbour) []neighbour {
		out := make([]neighbour, len(side))
		for i, n := range side {
			out[i] = neighbour{n.Name, n.Count, n.Probability}
		}
		return out
	}
	symbols := []symbol{}
	for _, n := range s.Symbols() {
		symbols = append(symbols, symbol{n.Name, n.Count, convert(n.Before), convert(n.After)})
	}
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Symbols []symbol `json:"symbols"`
	}{"succession", s.JSON(), symbols})
}
