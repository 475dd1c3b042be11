package structure

import (
	"fmt"
	"strings"

	"endoscope/operators/encoders"
)

// ConformanceOptions describe a sequence that is checked against a model.
type ConformanceOptions struct {
	// Open marks a sequence that has not ended; expected symbols may still come.
	Open bool
	// Anywhere lets a sequence begin in the middle of the model, as that of a program that
	// was already running does. Only automata support it.
	Anywhere bool
}

// ConformanceEncoder finds the first symbol at which a sequence departs from a model. The
// cost per symbol does not depend on the length of the sequence.
type ConformanceEncoder struct {
	encoders.Intake
	model   *Model
	options ConformanceOptions
	meaning []encoders.Symbol // by symbol of the alphabet: the model's symbol, or End; unread: not looked up
	track   track
	n       int64
	left    *Departure
}

// Departure is the point where a sequence departs from a model.
type Departure struct {
	Sequence int      // index of the sequence, from 0
	Label    string   // label of the sequence, if any
	Position int64    // of the symbol in the sequence, from 0; the length if the sequence ends there
	Symbol   string   // as Quote writes it; "⊣" for the end
	Expected []string // symbols the model allows there, in its order
}

// mostExpected is the largest number of expected symbols in a text.
const mostExpected = 5

// String returns a message for people.
func (d *Departure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s at symbol %d", d.Symbol, d.Position+1)
	if d.Symbol == encoders.EndName {
		b.Reset()
		fmt.Fprintf(&b, "the end after %d symbols", d.Position)
	}
	for i, e := range d.Expected {
		switch {
		case i == 0:
			b.WriteString(", expected ")
		case i == mostExpected:
			fmt.Fprintf(&b, " or %d others", len(d.Expected)-i)
			return b.String()
		default:
			b.WriteString(" or ")
		}
		b.WriteString(e)
	}
	return b.String()
}

// track follows a sequence through a model.
type track interface {
	// step consumes a symbol of the model, or [End], and reports whether the model allows
	// it here. After false only expected may be called.
	step(x encoders.Symbol) bool
	// expected returns the symbols the model allows here, or allowed at the failed step.
	expected() []encoders.Symbol
	bytes() int64
	clone() track
}

// unread marks a symbol whose meaning was not looked up.
const unread = encoders.End - 1

// NewConformanceEncoder returns an encoder that checks a sequence over a.
func NewConformanceEncoder(a *encoders.Alphabet, m *Model, o ConformanceOptions, l encoders.Limits) (*ConformanceEncoder, error) {
	e := &ConformanceEncoder{Intake: encoders.Intake{Alphabet: a, Limits: l}, model: m, options: o}
	switch x := m.encoding.(type) {
	case *Automaton:
		e.track = newStateTrack(m.transitions, o.Anywhere)
	case *Grammar:
		if o.Anywhere {
			return nil, fmt.Errorf("a grammar does not say what follows in its middle: sequences are checked from their beginning")
		}
		e.track = newDerivation(x)
	}
	return e, nil
}

// Append implements [Encoder]; it ignores times.
func (e *ConformanceEncoder) Append(symbols []encoders.Symbol, _ []int64) {
	e.Consume(symbols, nil, e.encode, e.Bytes)
}

func (e *ConformanceEncoder) encode(symbols []encoders.Symbol, _ []int64) {
	if e.left != nil {
		return
	}
	for _, s := range symbols {
		for int(s) >= len(e.meaning) {
			e.meaning = append(e.meaning, unread)
		}
		x := e.meaning[s]
		if x == unread {
			x = e.model.symbol(s, e.Alphabet.List[s])
			e.meaning[s] = x
		}
		if x == encoders.End || !e.track.step(x) {
			e.left = e.departure(e.track, e.n, s, e.Alphabet.List)
			return
		}
		e.n++
	}
}

// Finish marks the sequence as ended, Open or not.
func (e *ConformanceEncoder) Finish() {
	if e.left == nil && !e.Truncated && !e.Full && !e.track.step(encoders.End) {
		e.left = e.departure(e.track, e.n, encoders.End, nil)
	}
	e.options.Open = true // the end has been checked
}

// Departed reports whether the sequence has departed from the model.
func (e *ConformanceEncoder) Departed() bool { return e.left != nil }

func (e *ConformanceEncoder) departure(t track, at int64, s encoders.Symbol, names []string) *Departure {
	d := &Departure{Label: e.Name, Position: at, Symbol: string(encoders.AppendName(nil, names, s))}
	for _, x := range t.expected() {
		d.Expected = append(d.Expected, string(encoders.AppendName(nil, e.model.names, x)))
	}
	return d
}

func (e *ConformanceEncoder) Bytes() int64 { return 4*int64(cap(e.meaning)) + e.track.bytes() }

// Encode implements [Encoder]. It returns a [*Conformance]. A sequence that is neither Open
// nor cut ends here.
func (e *ConformanceEncoder) Encode() encoders.Encoding {
	c := &Conformance{Source: e.Source(), left: e.left}
	if e.left == nil && !e.options.Open && !e.Truncated && !e.Full {
		if t := e.track.clone(); !t.step(encoders.End) {
			c.left = e.departure(t, e.n, encoders.End, nil)
		}
	}
	if c.left != nil {
		c.departed = 1
	}
	// The result for any number of sequences takes the memory of one.
	c.Digests, c.Labels = nil, nil
	return c
}

// Conformance reports whether sequences conform to a model.
type Conformance struct {
	encoders.Source
	departed int        // number of sequences that do not conform
	left     *Departure // of the first of them
}

// Conforms reports whether all sequences conform to the model.
func (c *Conformance) Conforms() bool { return c.left == nil }

// Departure returns where the first non-conforming sequence departs from the model; nil if
// all conform.
func (c *Conformance) Departure() *Departure { return c.left }

func (c *Conformance) Merge(others []encoders.Encoding) (encoders.Encoding, error) {
	m := &Conformance{}
	for _, e := range append([]encoders.Encoding{c}, others...) {
		o, ok := e.(*Conformance)
		if !ok {
			return nil, encoders.ErrUnlike
		}
		if o.left != nil && m.left == nil {
			d := *o.left
			d.Sequence += m.Sequences
			m.left = &d
		}
		m.departed += o.departed
		m.Source = m.Joined(o.Source)
	}
	return m, nil
}

// String returns the result as a sentence.
func (c *Conformance) String() string {
	switch {
	case c.left == nil:
		return "conforms" + c.Remark()
	case c.Sequences > 1:
		first := fmt.Sprint(c.left.Sequence + 1)
		if c.left.Label != "" {
			first = encoders.Quote(c.left.Label)
		}
		return fmt.Sprintf("%d of %d sequences leave the model, first sequence %s: %s%s", c.departed, c.Sequences, first, c.left, c.Remark())
	}
	return c.left.String() + c.Remark()
}

func (c *Conformance) MarshalJSON() ([]byte, error) {
	type departure struct {
		Sequence int      `json:"sequence"`
		Label    string   `json:"label,omitempty"`
		Position int64    `json:"position"`
		Symbol   string   `json:"symbol"`
		Expected []string `json:"expected"`
	}
	j := struct {
		Encoding string `json:"encoding"`
		encoders.SourceJSON
		Conforms bool       `json:"conforms"`
		Departed int        `json:"sequences_departed"`
		First    *departure `json:"first_departure,omitempty"`
	}{Encoding: "conformance", SourceJSON: c.JSON(), Conforms: c.Conforms(), Departed: c.departed}
	if d := c.left; d != nil {
		j.First = &departure{d.Sequence, d.Label, d.Position, d.Symbol, append([]string{}, d.Expected...)}
	}
	return encoders.Marshal(j)
}
