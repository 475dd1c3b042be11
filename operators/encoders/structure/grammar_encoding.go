package structure

import (
	"iter"
	"slices"
	"strconv"

	"endoscope/operators/encoders"
)

// Grammar is a context-free grammar that derives exactly the encoded sequences, each from
// its own start string. The grammar of a [DAGEncoder] is a graph: each rule is a call, R1
// -> f R2 3:R3 <, and the start strings are the top-level calls of threads.
type Grammar struct {
	encoders.Source
	*productions
	names   []string
	options GrammarOptions
	symbols []encoders.Stats // of each symbol; nil without times
}

func (g *Grammar) Exact() bool { return g.options.Cutoff == 0 }

func (g *Grammar) Names() []string { return g.names }

// Rules returns the number of productions, start strings included.
func (g *Grammar) Rules() int { return len(g.ends) }

// Size returns the number of items in all right-hand sides.
func (g *Grammar) Size() int { return len(g.items) }

func (g *Grammar) Decode(i int) iter.Seq[encoders.Symbol] {
	return func(yield func(encoders.Symbol) bool) { g.derive(i, yield) }
}

// appendRule appends the name of production p: R0 is the start string of a single sequence,
// S0, S1, ... are those of several; the rules begin at R1.
func (g *Grammar) appendRule(b []byte, p int) []byte {
	switch {
	case g.starts == 1:
		return strconv.AppendInt(append(b, 'R'), int64(p), 10)
	case p < g.starts:
		return strconv.AppendInt(append(b, 'S'), int64(p), 10)
	}
	return strconv.AppendInt(append(b, 'R'), int64(p-g.starts+1), 10)
}

// String returns one line per rule:
//
//	R0 -> A 8:B R1 2:D R1 C
//	R1 -> B C D
func (g *Grammar) String() string {
	var b []byte
	for p := range g.ends {
		if p > 0 {
			b = append(b, '\n')
		}
		b = g.appendProduction(b, p)
	}
	return string(b) + g.Remark()
}

// appendProduction appends the line of production p.
func (g *Grammar) appendProduction(b []byte, p int) []byte {
	b = append(append(g.appendRule(b, p), ' '), encoders.Arrow...)
	for _, it := range g.rightSide(p) {
		b = append(b, ' ')
		b = appendItem(b, it, func(b []byte) []byte {
			if isRule(it.value) {
				return g.appendRule(b, int(it.value&^ruleBit))
			}
			return encoders.AppendName(b, g.names, it.value)
		})
	}
	return b
}

func appendItem(b []byte, it item, name func([]byte) []byte) []byte {
	if it.n == 0 {
		return append(name(b), '*')
	}
	return appendRun(b, it.n, 0, name)
}

func (g *Grammar) MarshalJSON() ([]byte, error) {
	type element struct {
		Symbol *string `json:"symbol,omitempty"`
		Rule   string  `json:"rule,omitempty"`
		N      int64   `json:"n,omitempty"` // not of long runs
		Long   bool    `json:"long,omitempty"`
	}
	type production struct {
		Name  string         `json:"name"`
		Right []element      `json:"right"`
		Stats encoders.Stats `json:"stats"`
	}
	type symbol struct {
		Symbol string         `json:"symbol"`
		Stats  encoders.Stats `json:"stats"`
	}
	rules := make([]production, len(g.ends))
	for p := range rules {
		r := &rules[p]
		r.Name, r.Stats, r.Right = string(g.appendRule(nil, p)), g.stats[p], make([]element, 0, len(g.rightSide(p)))
		for _, it := range g.rightSide(p) {
			e := element{N: it.n, Long: it.n == 0}
			if isRule(it.value) {
				e.Rule = string(g.appendRule(nil, int(it.value&^ruleBit)))
			} else {
				e.Symbol = &g.names[it.value]
			}
			r.Right = append(r.Right, e)
		}
	}
	var symbols []symbol
	for s, stats := range g.symbols {
		if stats.Count > 0 {
			symbols = append(symbols, symbol{g.names[s], stats})
		}
	}
	kind := "grammar"
	if g.options.calls {
		kind = "dag"
	}
	return encoders.Marshal(struct {
		Encoding string `json:"encoding"`
		encoders.SourceJSON
		Runs     bool         `json:"rle,omitempty"`
		Cutoff   int          `json:"cutoff,omitempty"`
		Balanced string       `json:"balanced,omitempty"`
		Rules    []production `json:"rules"`
		Symbol   []symbol     `json:"symbols_timed,omitempty"`
	}{kind, g.JSON(), g.options.Runs, g.options.Cutoff, g.options.Balance.String(), rules, symbols})
}

// Merge implements [Mergeable]: each sequence keeps its start string, and rules with equal
// right-hand sides are merged, bottom-up.
func (g *Grammar) Merge(others []encoders.Encoding) (encoders.Encoding, error) {
	a := encoders.AlphabetOf(g.names)
	f := &folding{byText: map[string]uint32{}}
	m := &Grammar{options: g.options}
	var starts [][]item
	var stats []encoders.Stats
	for i, other := range append([]encoders.Encoding{g}, others...) {
		o, ok := other.(*Grammar)
		if !ok || o.options != g.options {
			return nil, encoders.ErrUnlike
		}
		to := a.Translate(o.names)
		rules := make([]uint32, len(o.ends))
		right := func(p int) []item {
			rhs := slices.Clone(o.rightSide(p))
			for j := range rhs {
				if v := rhs[j].value; isRule(v) {
					rhs[j].value = ruleBit | rules[v&^ruleBit]
				} else {
					rhs[j].value = to[v]
				}
			}
			return rhs
		}
		o.upward(func(p int) { rules[p] = f.rule(right(p), &o.stats[p]) })
		for p := range o.starts {
			starts, stats = append(starts, right(p)), append(stats, o.stats[p])
		}
		m.symbols = encoders.MergeStats(m.symbols, o.symbols, to)
		if i == 0 {
			m.Source = o.Source
		} else {
			m.Source = m.Joined(o.Source)
		}
	}
	m.productions, m.names = f.finish(starts, stats), a.Names()
	return m, nil
}
