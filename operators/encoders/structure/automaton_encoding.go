package structure

import (
	"slices"
	"strconv"
	"sync"

	"endoscope/operators/encoders"
)

// Automaton is the encoding of one or more sequences as an automaton.
//
// It holds the automaton built while reading, with the tails of its states, because that
// form merges: the automaton of several sequences joins the start states, then the states
// of equal tails, then the states that determinism requires. None of that depends on the
// order of the sequences. The automaton shown to users is derived from it on first use.
type Automaton struct {
	encoders.Source
	options AutomatonOptions
	names   []string

	read   *fsa
	tails  *tails  // nil under Included and Equal
	states []int32 // by tail

	reduce sync.Once
	shown  *fsa // merged by the rule, minimised and numbered
}

func newAutomaton(o AutomatonOptions, names []string, of encoders.Source, m *machine, t *tails) *Automaton {
	a := &Automaton{Source: of, options: o, names: names, tails: t}
	var number []int32
	a.read, _, number = m.snapshot()
	if t != nil {
		a.states = make([]int32, len(t.states))
		for n, q := range t.states {
			a.states[n] = number[q]
		}
	}
	return a
}

func (a *Automaton) Merge(others []encoders.Encoding) (encoders.Encoding, error) {
	all := make([]*Automaton, 1, 1+len(others))
	all[0] = a
	for _, o := range others {
		b, ok := o.(*Automaton)
		if !ok || b.options != a.options {
			return nil, encoders.ErrUnlike
		}
		all = append(all, b)
	}
	alphabet := encoders.NewAlphabet()
	m := newMachine()
	var t *tails
	if a.tails != nil {
		t = newTails(a.options.K)
	}
	var of encoders.Source
	var symbols []encoders.Symbol
	var last []string
	for _, b := range all {
		of = of.Joined(b.Source)
		// Automata of one query share one alphabet.
		if len(last) == 0 || len(last) != len(b.names) || &last[0] != &b.names[0] {
			symbols, last = alphabet.Translate(b.names), b.names
		}
		m.addAutomaton(b, symbols, t)
	}
	return newAutomaton(a.options, alphabet.Names(), of, m, t), nil
}

// addAutomaton adds b to m, with its symbols translated; t holds the tails of m's states.
func (m *machine) addAutomaton(b *Automaton, symbols []encoders.Symbol, t *tails) {
	states := m.add(b.read, symbols)
	if t == nil {
		return
	}
	tail := make([]encoders.Symbol, t.k)
	for n, q := range b.states {
		for i, x := range b.tails.sequence(int32(n)) {
			if tail[i] = x; x != encoders.End {
				tail[i] = symbols[x]
			}
		}
		have, at, hash := t.find(tail)
		if have == none {
			t.put(tail, at, hash, states[q])
		} else {
			m.merge(t.states[have], states[q])
		}
	}
}

// automaton returns the automaton shown to users.
func (a *Automaton) automaton() *fsa {
	a.reduce.Do(func() {
		f := a.read.reduced(a.options)
		a.shown = f.quotient(f.equivalent()).numbered(a.names)
	})
	return a.shown
}

// States returns the number of states. They are numbered in breadth-first order from 0, the
// start. Every automaton has a final state, in which a sequence has ended.
func (a *Automaton) States() int { return a.automaton().len() }

// Final returns the state in which a sequence has ended.
func (a *Automaton) Final() int { return int(a.automaton().final) }

// Arc is an arc of an automaton. Name is the name of its symbol as [Quote] writes it; [End]
// is written as "⊣".
type Arc struct {
	From, To int
	Symbol   encoders.Symbol
	Name     string
	Stats    encoders.Stats // how often it was taken, and the times of its symbols
}

// Arcs returns the arcs by state, then in the order in which they were first taken.
func (a *Automaton) Arcs() []Arc {
	f := a.automaton()
	arcs := make([]Arc, 0, len(f.arcs))
	for q := range f.len() {
		for _, l := range f.inOrder(int32(q), a.names) {
			arcs = append(arcs, Arc{q, int(l.to), l.symbol, string(encoders.AppendName(nil, a.names, l.symbol)), l.stats})
		}
	}
	return arcs
}

// Options returns the options of the inference.
func (a *Automaton) Options() AutomatonOptions { return a.options }

// Names returns the names of the symbols.
func (a *Automaton) Names() []string { return slices.Clip(a.names) }

// String returns one line per arc: state, symbol, state.
func (a *Automaton) String() string {
	var b []byte
	for i, l := range a.Arcs() {
		if i > 0 {
			b = append(b, '\n')
		}
		b = strconv.AppendInt(b, int64(l.From), 10)
		b = append(append(append(b, ' '), l.Name...), ' ')
		b = strconv.AppendInt(b, int64(l.To), 10)
	}
	return string(b) + a.Remark()
}

func (a *Automaton) MarshalJSON() ([]byte, error) {
	type arc struct {
		From   int            `json:"from"`
		Symbol string         `json:"symbol,omitempty"`
		End    bool           `json:"end,omitempty"`
		To     int            `json:"to"`
		Stats  encoders.Stats `json:"stats"`
	}
	arcs := []arc{}
	for _, l := range a.Arcs() {
		j := arc{From: l.From, To: l.To, Stats: l.Stats}
		if j.End = l.Symbol == encoders.End; !j.End {
			j.Symbol = a.names[l.Symbol]
		}
		arcs = append(arcs, j)
	}
	return encoders.Marshal(struct {
		Encoding string `json:"encoding"`
		encoders.SourceJSON
		K      int    `json:"k"`
		Loops  bool   `json:"loops"`
		Rule   string `json:"merge"`
		States int    `json:"states"`
		Start  int    `json:"start"`
		Final  int    `json:"final"`
		Arcs   []arc  `json:"arcs"`
	}{"automaton", a.JSON(), a.options.K, !a.options.NoLoops, a.options.Rule.String(), a.States(), 0, a.Final(), arcs})
}
