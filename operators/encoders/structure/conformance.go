package structure

import (
	"fmt"
	"strings"

	"endoscope/operators/encoders"
)

// ConformanceOptions say what a sequence that is checked against a model is.
type ConformanceOptions struct {
	// Open sequences have not ended: what is expected need not have come yet.
	Open bool
	// Anywhere lets sequences begin in the middle of the model, as those of a
	// program that was running already do. Automata alone can say what follows.
	Anywhere bool
}

// ConformanceEncoder finds the first symbol of a sequence at which it leaves a
// model. Symbols cost the same however long the sequence is.
type ConformanceEncoder struct {
	encoders.Intake
	model   *Model
	options ConformanceOptions
	meaning []encoders.Symbol // by symbol of the alphabet: that of the model, or End; unread
	track   track
	n       int64
	left    *Departure
}

// Departure is where a sequence leaves a model.
type Departure struct {
	Sequence int      // which of the sequences, from 0
	Label    string   // what the sequence is called, if anything
	Position int64    // of the symbol in it, from 0; its length if it ends there
	Symbol   string   // as Quote writes it; "⊣" if it ends
	Expected []string // what the model has there, in its order
}

// mostExpected is how many expected symbols a text names.
const mostExpected = 5

// String is for people.
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
	// step takes a symbol of the model, or [End], and reports whether the model
	// has it here. After false it is not used again, but for expected.
	step(x encoders.Symbol) bool
	// expected is what the model has here, or had at the step that failed.
	expected() []encoders.Symbol
	bytes() int64
	clone() track
}

// unread is no symbol's meaning yet.
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

// Append implements [Encoder]; it makes no use of times.
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

// Finish says that the sequence has ended, Open or not.
func (e *ConformanceEncoder) Finish() {
	if e.left == nil && !e.Truncated && !e.Full && !e.track.step(encoders.End) {
		e.left = e.departure(e.track, e.n, encoders.End, nil)
	}
	e.options.Open = true // the end was looked at
}

// Departed reports whether the sequence has left the model.
func (e *ConformanceEncoder) Departed() bool { return e.left != nil }

func (e *ConformanceEncoder) departure(t track, at int64, s encoders.Symbol, names []string) *Departure {
	d := &Departure{Label: e.Name, Position: at, Symbol: string(encoders.AppendName(nil, names, s))}
	for _, x := range t.expected() {
		d.Expected = append(d.Expected, string(encoders.AppendName(nil, e.model.names, x)))
	}
	return d
}

// Bytes implements [Encoder].
func (e *ConformanceEncoder) Bytes() int64 { return 4*int64(cap(e.meaning)) + e.track.bytes() }

// Encode implements [Encoder]: it gives a [*Conformance]. A sequence that is
// not Open, and was not cut, ends here.
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
	// The result of any number of sequences takes the memory of one.
	c.Digests, c.Labels = nil, nil
	return c
}

// Conformance is whether sequences belong to a model.
type Conformance struct {
	encoders.Source
	departed int        // how many sequences do not
	left     *Departure // of the first of them
}

// Conforms reports whether all sequences belong to the model.
func (c *Conformance) Conforms() bool { return c.left == nil }

// Departure is where the first sequence that does not belong to the model
// leaves it; nil if there is none.
func (c *Conformance) Departure() *Departure { return c.left }

// Merge implements [Mergeable].
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

// String says it in words.
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

// MarshalJSON implements [Encoding].
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
