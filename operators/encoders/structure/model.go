package structure

import (
	"encoding/json"
	"fmt"
	"slices"

	"endoscope/operators/encoders"
)

// Model is an automaton or a grammar that describes the expected sequences (a use of
// encodings named by Reiss and Renieris). It is immutable.
type Model struct {
	encoding     encoders.Encoding // *Automaton or *Grammar
	names        []string
	symbols      map[string]encoders.Symbol // by name, except Return
	*transitions                            // of an automaton
}

// NewModel returns a model made from an encoding: an automaton, which expects its language,
// or a grammar, which expects the sequences it derives (for a long run, any number above
// the cutoff). Other encodings do not describe what may follow what.
func NewModel(e encoders.Encoding) (*Model, error) {
	m := &Model{encoding: e, symbols: map[string]encoders.Symbol{}}
	switch e := e.(type) {
	case *Automaton:
		m.names = e.names
		m.transitions = newTransitions(e.automaton(), len(e.names))
	case *Grammar:
		m.names = e.names
	default:
		return nil, fmt.Errorf("a model is an automaton or a grammar")
	}
	for s, name := range m.names {
		if encoders.Symbol(s) != encoders.Return {
			m.symbols[name] = encoders.Symbol(s)
		}
	}
	return m, nil
}

// Encoding returns the encoding the model was made from.
func (m *Model) Encoding() encoders.Encoding { return m.encoding }

// Kind returns "automaton" or "grammar".
func (m *Model) Kind() string {
	if _, ok := m.encoding.(*Automaton); ok {
		return "automaton"
	}
	return "grammar"
}

// Size returns a description of the model's size.
func (m *Model) Size() string {
	switch e := m.encoding.(type) {
	case *Automaton:
		return fmt.Sprintf("%d states, %d arcs", e.States(), len(e.automaton().arcs))
	case *Grammar:
		return fmt.Sprintf("%d rules, %d symbols", e.Rules(), e.Size())
	}
	return ""
}

// symbol returns the model's symbol for a symbol called name of another alphabet, or End if
// the model does not have it.
func (m *Model) symbol(s encoders.Symbol, name string) encoders.Symbol {
	if s == encoders.Return {
		return encoders.Return
	}
	if x, ok := m.symbols[name]; ok {
		return x
	}
	return encoders.End
}

// modelVersion is the version of the stored form.
const modelVersion = 1

// storedModel is the JSON form of a model. Everything is numbered, so that names cannot be
// confused with syntax.
type storedModel struct {
	Version int                 `json:"endoscope_model"`
	Names   []string            `json:"names"` // by symbol; entry 0, Return, is unused
	Source  encoders.SourceJSON `json:"source"`
	FSA     *storedAutomaton    `json:"automaton,omitempty"`
	Grammar *storedGrammar      `json:"grammar,omitempty"`
}

type storedAutomaton struct {
	K      int         `json:"k"`
	Basic  bool        `json:"basic,omitempty"`
	Rule   string      `json:"merge"`
	States int         `json:"states"`
	Final  int32       `json:"final"`
	Arcs   []storedArc `json:"arcs"`
}

type storedArc struct {
	From   int32           `json:"from"`
	Symbol encoders.Symbol `json:"symbol"` // End is 4294967295
	To     int32           `json:"to"`
	Born   int64           `json:"born"`
	Stats  storedStats     `json:"stats"`
}

type storedGrammar struct {
	Starts  int           `json:"starts"`
	Runs    bool          `json:"runs,omitempty"`
	Cutoff  int           `json:"cutoff,omitempty"`
	Balance Balance       `json:"balance,omitempty"`
	Calls   bool          `json:"calls,omitempty"`
	Rules   [][][2]int64  `json:"rules"` // of items: value, count
	Stats   []storedStats `json:"stats"`
}

// storedStats holds count, timed, Σt and the two halves of Σt².
type storedStats [5]int64

func stored(s *encoders.Stats) storedStats {
	return storedStats{s.Count, s.Timed, s.Sum, int64(s.SumSq.Hi), int64(s.SumSq.Lo)}
}

func (s storedStats) stats() encoders.Stats {
	return encoders.Stats{Count: s[0], Timed: s[1], Sum: s[2], SumSq: encoders.Uint128{Hi: uint64(s[3]), Lo: uint64(s[4])}}
}

// MarshalJSON returns the form that [Model.UnmarshalJSON] reads.
func (m *Model) MarshalJSON() ([]byte, error) {
	of := m.encoding.Of()
	s := storedModel{Version: modelVersion, Names: m.names, Source: of.JSON()}
	switch e := m.encoding.(type) {
	case *Automaton:
		f := e.automaton()
		s.FSA = &storedAutomaton{K: e.options.K, Basic: e.options.NoLoops, Rule: e.options.Rule.String(), States: f.len(), Final: f.final}
		for q := range int32(f.len()) {
			for _, a := range f.arcsFrom(q) {
				s.FSA.Arcs = append(s.FSA.Arcs, storedArc{q, a.symbol, a.to, a.born, stored(&a.stats)})
			}
		}
	case *Grammar:
		o := e.options
		s.Grammar = &storedGrammar{Starts: e.starts, Runs: o.Runs, Cutoff: o.Cutoff, Balance: o.Balance, Calls: o.calls}
		for p := range e.ends {
			right := [][2]int64{}
			for _, it := range e.rightSide(p) {
				right = append(right, [2]int64{int64(it.value), it.n})
			}
			s.Grammar.Rules = append(s.Grammar.Rules, right)
			s.Grammar.Stats = append(s.Grammar.Stats, stored(&e.stats[p]))
		}
	}
	return encoders.Marshal(s)
}

// UnmarshalJSON reads a stored model and validates it.
func (m *Model) UnmarshalJSON(data []byte) error {
	var s storedModel
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("this is not a model: %w", err)
	}
	if s.Version != modelVersion {
		return fmt.Errorf("this is not a model of version %d", modelVersion)
	}
	var e encoders.Encoding
	var err error
	of := encoders.Source{Sequences: s.Source.Sequences, Truncated: s.Source.Truncated, Symbols: s.Source.Symbols, Encoded: s.Source.Encoded}
	if of.Encoded == 0 {
		of.Encoded = of.Symbols
	}
	switch {
	case len(s.Names) == 0:
		err = fmt.Errorf("it has no alphabet")
	case s.FSA != nil:
		e, err = s.FSA.automaton(s.Names, of)
	case s.Grammar != nil:
		e, err = s.Grammar.grammar(s.Names, of)
	default:
		err = fmt.Errorf("it has neither an automaton nor a grammar")
	}
	if err != nil {
		return fmt.Errorf("this model is damaged: %w", err)
	}
	made, err := NewModel(e)
	if err == nil {
		*m = *made
	}
	return err
}

func (s *storedAutomaton) automaton(names []string, of encoders.Source) (*Automaton, error) {
	a := &Automaton{Source: of, names: names, options: AutomatonOptions{K: s.K, NoLoops: s.Basic}}
	rule, ok := ParseMergeRule(s.Rule)
	if a.options.Rule = rule; !ok || a.options.check() != nil {
		return nil, fmt.Errorf("its options are wrong")
	}
	if s.States < 1 || s.Final < 0 || int(s.Final) >= s.States {
		return nil, fmt.Errorf("its states are wrong")
	}
	f := &fsa{from: []int32{0}, final: s.Final}
	arcs := slices.Clone(s.Arcs)
	for q := range int32(s.States) {
		for len(arcs) > 0 && arcs[0].From == q {
			l := arcs[0]
			arcs = arcs[1:]
			if int(l.To) >= s.States || l.To < 0 || l.Symbol != encoders.End && int(l.Symbol) >= len(names) || (l.Symbol == encoders.End) != (l.To == s.Final) {
				return nil, fmt.Errorf("an arc of state %d is wrong", q)
			}
			f.arcs = append(f.arcs, fsaArc{l.Symbol, l.To, l.Born, l.Stats.stats()})
		}
		before := len(f.arcs)
		if f.close(); len(f.arcs) != before {
			return nil, fmt.Errorf("state %d has two arcs for a symbol", q)
		}
	}
	if len(arcs) > 0 {
		return nil, fmt.Errorf("its arcs are not in order of states")
	}
	a.read = f // without tails it cannot be merged with others
	a.reduce.Do(func() { a.shown = f })
	return a, nil
}

func (s *storedGrammar) grammar(names []string, of encoders.Source) (*Grammar, error) {
	if s.Starts < 1 || s.Starts > len(s.Rules) || len(s.Stats) != len(s.Rules) || s.Cutoff < 0 || s.Balance > FullyBalanced {
		return nil, fmt.Errorf("its productions are wrong")
	}
	p := &productions{starts: s.Starts}
	for i, right := range s.Rules {
		for _, it := range right {
			v := it[0]
			ok := v >= 0 && v < int64(len(names))
			if v&int64(ruleBit) != 0 {
				r := v &^ int64(ruleBit)
				ok = r >= int64(s.Starts) && r < int64(len(s.Rules))
			}
			if !ok || it[1] < 0 {
				return nil, fmt.Errorf("rule %d is wrong", i)
			}
			p.items = append(p.items, item{uint32(v), it[1]})
		}
		if i >= s.Starts && len(right) == 0 {
			return nil, fmt.Errorf("rule %d is empty", i)
		}
		p.ends = append(p.ends, len(p.items))
		p.stats = append(p.stats, s.Stats[i].stats())
	}
	if p.circular() {
		return nil, fmt.Errorf("a rule derives itself")
	}
	return &Grammar{Source: of, productions: p, names: names, options: GrammarOptions{Runs: s.Runs, Cutoff: s.Cutoff, Balance: s.Balance, calls: s.Calls}}, nil
}

// circular reports whether a rule uses itself, directly or indirectly.
func (g *productions) circular() bool {
	state := make([]uint8, len(g.ends)) // 1: being visited, 2: done
	var visit func(p int) bool
	visit = func(p int) bool {
		state[p] = 1
		for _, it := range g.rightSide(p) {
			if !isRule(it.value) {
				continue
			}
			switch r := int(it.value &^ ruleBit); state[r] {
			case 1:
				return true
			case 0:
				if visit(r) {
					return true
				}
			}
		}
		state[p] = 2
		return false
	}
	for p := range g.ends {
		if state[p] == 0 && visit(p) {
			return true
		}
	}
	return false
}
