package encoders

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Encoder encodes one sequence as it happens. It belongs to one goroutine.
type Encoder interface {
	// Append takes the next symbols of the sequence. times, where it is not
	// nil, has an entry for each: how long the symbol took, in ns, or for
	// encoders of calls (those that understand Return) when it happened. Either
	// all calls of Append have times or none has. The slices are the caller's.
	Append(symbols []Symbol, times []int64)
	// Truncate says that the sequence was cut: symbols are missing behind those
	// that were appended.
	Truncate()
	// Label names the sequence: the thread or object that it is of.
	Label(name string)
	// Freeze says that memory is used up: what comes after it is counted and
	// not encoded.
	Freeze()
	// Bytes is about how much memory the encoder holds. It is cheap.
	Bytes() int64
	// Encode gives the encoding of what was appended so far. The encoder may go
	// on; the encoding does not change with it.
	Encode() Encoding
}

// Encoding is what an encoder found. It is immutable.
type Encoding interface {
	// String is the text form, without a newline at the end.
	fmt.Stringer
	// MarshalJSON gives everything that the encoding holds, with the statistics.
	json.Marshaler
	// Of says what was encoded.
	Of() Source
}

// Mergeable encodings of several sequences can be joined into one.
type Mergeable interface {
	Encoding
	// Merge is the encoding of the receiver's sequences and then those of
	// others, which are of the same kind and options; their alphabets may
	// differ.
	Merge(others []Encoding) (Encoding, error)
}

// Lossless encodings can be decoded.
type Lossless interface {
	Encoding
	// Exact reports whether nothing was left out: some encodings have options
	// that leave out. Only then may the other methods be used.
	Exact() bool
	// Names has the names of the symbols (see [Alphabet.Names]).
	Names() []string
	// Decode gives back sequence i of the Of().Sequences that were encoded.
	Decode(i int) iter.Seq[Symbol]
}

// Graph is an encoding that is a picture of nodes and arcs.
type Graph interface {
	Encoding
	Dot() string     // for Graphviz
	Mermaid() string // for Markdown
}

// Drawing is an encoding that draws itself.
type Drawing interface {
	Encoding
	SVG() string
}

// Limits of an encoder.
type Limits struct {
	// Budget is how many bytes the encoder may hold, 0: any number. What comes
	// when it is used up is counted and not encoded.
	Budget int64
}

// Source says what an encoding is of.
type Source struct {
	Sequences int      // how many sequences
	Truncated int      // how many of them were cut: their ends are missing
	Symbols   int64    // how many symbols were given
	Encoded   int64    // how many of them are encoded: less than Symbols when the budget was used up
	Labels    []string // of the sequences, "" for those that have none; nil: none has
	Digests   []Digest
}

// Complete reports whether everything that was given is encoded.
func (s *Source) Complete() bool { return s.Encoded == s.Symbols }

// Of implements [Encoding] for those that embed a Source.
func (s *Source) Of() Source { return *s }

// Intake is what an encoder notes of what it is given. It is embedded.
type Intake struct {
	Alphabet  *Alphabet
	Limits    Limits
	symbols   int64 // given
	digest    Digest
	Truncated bool
	Name      string
	Full      bool // the budget is used up: nothing more is encoded
}

// budgetBlock is how many symbols may be encoded before the budget is looked
// at again.
const budgetBlock = 4096

// Consume calls encode with as much of symbols as the budget has room for, after
// each part asking how many bytes there are.
func (in *Intake) Consume(symbols []Symbol, times []int64, encode func([]Symbol, []int64), bytes func() int64) {
	in.symbols += int64(len(symbols))
	for len(symbols) > 0 && !in.Full {
		n := min(len(symbols), budgetBlock)
		var t []int64
		if times != nil {
			t, times = times[:n:n], times[n:]
		}
		encode(symbols[:n:n], t)
		in.digest.Add(symbols[:n], in.Alphabet.hashes)
		symbols = symbols[n:]
		in.Full = in.Limits.Budget > 0 && bytes() > in.Limits.Budget
	}
}

// Truncate implements [Encoder].
func (in *Intake) Truncate() { in.Truncated = true }

// Label implements [Encoder].
func (in *Intake) Label(name string) { in.Name = name }

// Freeze implements [Encoder].
func (in *Intake) Freeze() { in.Full = true }

// Source is what was given so far.
func (in *Intake) Source() Source {
	s := Source{Sequences: 1, Symbols: in.symbols, Encoded: in.digest.N, Digests: []Digest{in.digest}}
	if in.Truncated {
		s.Truncated = 1
	}
	if in.Name != "" {
		s.Labels = []string{in.Name}
	}
	return s
}

// Joined is the Source of the sequences of s and then those of o.
func (s Source) Joined(o Source) Source {
	digests := make([]Digest, 0, len(s.Digests)+len(o.Digests))
	return Source{
		Sequences: s.Sequences + o.Sequences,
		Truncated: s.Truncated + o.Truncated,
		Symbols:   s.Symbols + o.Symbols,
		Encoded:   s.Encoded + o.Encoded,
		Labels:    s.labelsWith(o),
		Digests:   append(append(digests, s.Digests...), o.Digests...),
	}
}

func (s *Source) labelsWith(o Source) []string {
	if s.Labels == nil && o.Labels == nil {
		return nil
	}
	labels := make([]string, s.Sequences+o.Sequences)
	copy(labels, s.Labels)
	copy(labels[s.Sequences:], o.Labels)
	return labels
}

// Remark is the line that the text forms of incomplete encodings end with,
// preceded by a newline; "" if there is nothing to remark.
func (s *Source) Remark() string {
	if s.Complete() {
		return ""
	}
	return fmt.Sprintf("\n%s the first %d of %d symbols: encoder_budget is used up", RemarkMark, s.Encoded, s.Symbols)
}

// SourceJSON is how encodings show their source.
type SourceJSON struct {
	Sequences int      `json:"sequences"`
	Truncated int      `json:"truncated,omitempty"`
	Symbols   int64    `json:"symbols"`
	Encoded   int64    `json:"encoded,omitempty"` // only where it differs
	Labels    []string `json:"labels,omitempty"`
}

func (s *Source) JSON() SourceJSON {
	j := SourceJSON{Sequences: s.Sequences, Truncated: s.Truncated, Symbols: s.Symbols, Labels: s.Labels}
	if !s.Complete() {
		j.Encoded = s.Encoded
	}
	return j
}

// Marshal is the JSON of v. Names of functions keep their < and >.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Digest is a hash of a sequence of names, and its length. Equal sequences have
// equal digests, also over different alphabets; different ones practically
// never.
type Digest struct {
	h uint64
	N int64
}

// Add takes the next symbols of the alphabet whose names have these hashes.
func (d *Digest) Add(symbols []Symbol, hashes []uint64) {
	h := d.h
	for _, s := range symbols {
		h = (h ^ hashes[s]) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	d.h = h
	d.N += int64(len(symbols))
}

// Verify decodes every sequence of e and compares it with what the encoder was
// given. An error is a defect of this package.
func Verify(e Lossless) error {
	hashes := make([]uint64, len(e.Names()))
	for s, name := range e.Names() {
		hashes[s] = NameHash(Symbol(s), name)
	}
	var block [512]Symbol
	of := e.Of()
	for i := range of.Sequences {
		var d Digest
		n := 0
		for s := range e.Decode(i) {
			block[n] = s
			if n++; n == len(block) {
				d.Add(block[:], hashes)
				n = 0
			}
		}
		d.Add(block[:n], hashes)
		if want := of.Digests[i]; d != want {
			return fmt.Errorf("sequence %d of %d symbols decodes to one of %d symbols that differs", i, want.N, d.N)
		}
	}
	return nil
}

// ErrUnlike refuses to merge.
var ErrUnlike = errors.New("encodings of different kinds or options cannot be merged")
