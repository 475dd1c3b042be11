package structure

import (
	"endoscope/operators/encoders"
)

// Balance selects how a grammar of call strings treats returns.
type Balance uint8

const (
	// AnyBalance treats returns like any symbol.
	AnyBalance Balance = iota
	// Restricted makes no rule with a return whose call is outside the rule.
	Restricted
	// FullyBalanced makes rules whose calls and returns match exactly. Other rules are
	// expanded where they are used, and their runs counted.
	FullyBalanced
)

// String returns the option's text.
func (b Balance) String() string { return [...]string{"", "restricted", "full"}[b] }

// GrammarOptions of [NewGrammarEncoder].
type GrammarOptions struct {
	// Runs run-length encodes the right-hand sides; a rule that is a single run is
	// expanded. FullyBalanced implies it.
	Runs bool
	// Cutoff marks longer runs as long without their length; 0 disables it. Such a grammar
	// does not decode.
	Cutoff  int
	Balance Balance
	calls   bool // a DAG of calls: each rule is one call
}

// GrammarEncoder builds a context-free grammar that derives exactly the sequence.
type GrammarEncoder struct {
	encoders.Intake
	options GrammarOptions
	grammar *sequitur
	symbols []encoders.Stats // of each symbol; nil without times
}

// NewGrammarEncoder returns an encoder for a sequence over a.
func NewGrammarEncoder(a *encoders.Alphabet, o GrammarOptions, l encoders.Limits) *GrammarEncoder {
	if o.Balance == FullyBalanced {
		o.Runs = true
	}
	return &GrammarEncoder{
		Intake: encoders.Intake{Alphabet: a, Limits: l}, options: o,
		grammar: newSequitur(o.Balance != AnyBalance),
	}
}

func (e *GrammarEncoder) Append(symbols []encoders.Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *GrammarEncoder) encode(symbols []encoders.Symbol, times []int64) {
	if times == nil {
		for _, s := range symbols {
			e.grammar.append(s, 0)
		}
		return
	}
	if e.grammar.took == nil {
		e.grammar.timed()
	}
	for i, s := range symbols {
		for int(s) >= len(e.symbols) {
			e.symbols = append(e.symbols, encoders.Stats{})
		}
		e.symbols[s].Add(times[i])
		e.grammar.append(s, times[i])
	}
}

func (e *GrammarEncoder) Bytes() int64 { return e.grammar.bytes() + 40*int64(cap(e.symbols)) }

func (e *GrammarEncoder) Encode() encoders.Encoding {
	raw := e.grammar.productions()
	raw.count()
	if e.options.Runs {
		raw = foldRuns(raw, e.options)
	}
	g := &Grammar{Source: e.Source(), productions: raw, names: e.Alphabet.Names(), options: e.options}
	if e.symbols != nil {
		g.symbols = append([]encoders.Stats(nil), e.symbols...)
	}
	return g
}
