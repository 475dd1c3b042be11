package encoders

import (
	"iter"
	"slices"
)

// CallStringEncoder records a call tree: each function at its call, and Return at its
// return. Times are when these happened.
type CallStringEncoder struct {
	Intake
	Calls
	symbols   []Symbol // append-only: encodings share it
	functions []Stats  // by symbol
}

// NewCallStringEncoder returns an encoder for the calls of a thread.
func NewCallStringEncoder(a *Alphabet, l Limits) *CallStringEncoder {
	return &CallStringEncoder{Intake: Intake{Alphabet: a, Limits: l}}
}

func (e *CallStringEncoder) Append(symbols []Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *CallStringEncoder) encode(symbols []Symbol, times []int64) {
	e.symbols = append(e.symbols, symbols...)
	for len(e.functions) < e.Alphabet.Len() {
		e.functions = append(e.functions, Stats{})
	}
	for i, s := range symbols {
		if s != Return {
			e.functions[s].Count++
			e.Enter(s, Moment(times, i))
		} else if ended, took, ok := e.Leave(Moment(times, i)); ok {
			e.functions[ended.symbol].returned(took)
		}
	}
}

func (e *CallStringEncoder) Bytes() int64 {
	return int64(4*cap(e.symbols) + 16*cap(e.Frames) + 40*cap(e.functions))
}

func (e *CallStringEncoder) Encode() Encoding {
	n := len(e.symbols)
	return &CallString{
		Source: e.Source(), names: e.Alphabet.Names(),
		symbols: e.symbols[:n:n], ends: []int{n}, functions: slices.Clone(e.functions),
	}
}

// CallString is the string encoding of call trees: A(B(C)) is A B C < < < and
// A(B C) is A B < C < <.
type CallString struct {
	Source
	names     []string
	symbols   []Symbol // of all sequences, concatenated
	ends      []int    // end of each sequence in symbols
	functions []Stats  // by symbol: calls, and the time between call and return
}

func (e *CallString) Exact() bool { return true }

func (e *CallString) Names() []string { return e.names }

// Symbols returns the symbols of sequence i.
func (e *CallString) Symbols(i int) []Symbol {
	from := 0
	if i > 0 {
		from = e.ends[i-1]
	}
	return e.symbols[from:e.ends[i]:e.ends[i]]
}

func (e *CallString) Decode(i int) iter.Seq[Symbol] { return slices.Values(e.Symbols(i)) }

// String returns one line per sequence.
func (e *CallString) String() string {
	var b []byte
	for i := range e.ends {
		if i > 0 {
			b = append(b, '\n')
		}
		for j, s := range e.Symbols(i) {
			if j > 0 {
				b = append(b, ' ')
			}
			b = AppendName(b, e.names, s)
		}
	}
	return string(b) + e.Remark()
}

// MarshalJSON implements [Encoding]. A return is null.
func (e *CallString) MarshalJSON() ([]byte, error) {
	type function struct {
		Function string `json:"function"`
		Stats    Stats  `json:"stats"`
	}
	sequences := make([][]*string, len(e.ends))
	for i := range sequences {
		sequences[i] = []*string{}
		for _, s := range e.Symbols(i) {
			name := &e.names[s]
			if s == Return {
				name = nil
			}
			sequences[i] = append(sequences[i], name)
		}
	}
	functions := []function{}
	for s, stats := range e.functions {
		if stats.Count > 0 {
			functions = append(functions, function{e.names[s], stats})
		}
	}
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Calls     [][]*string `json:"calls"`
		Functions []function  `json:"functions"`
	}{"callstring", e.JSON(), sequences, functions})
}

// Merge implements [Mergeable]; the sequences stay separate.
func (e *CallString) Merge(others []Encoding) (Encoding, error) {
	a := AlphabetOf(e.names)
	m := &CallString{Source: e.Source, symbols: slices.Clone(e.symbols), ends: slices.Clone(e.ends), functions: slices.Clone(e.functions)}
	for _, other := range others {
		o, ok := other.(*CallString)
		if !ok {
			return nil, ErrUnlike
		}
		to := a.Translate(o.names)
		for _, end := range o.ends {
			m.ends = append(m.ends, len(m.symbols)+end)
		}
		for _, s := range o.symbols {
			m.symbols = append(m.symbols, to[s])
		}
		m.functions = MergeStats(m.functions, o.functions, to)
		m.Source = m.Joined(o.Source)
	}
	m.names = a.Names()
	return m, nil
}
