package encoders

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
)

// Encoder encodes one sequence incrementally. It belongs to one goroutine.
type Encoder interface {
	// Append appends the next symbols of the sequence. If times is not nil it has one entry
	// per symbol: its duration in ns, or, for encoders of calls (those that understand
	// Return), when it happened. Either all calls of Append pass times or none does. The
	// encoder does not retain the slices.
	Append(symbols []Symbol, times []int64)
	// Truncate marks the sequence as cut: symbols after the appended ones are missing.
	Truncate()
	// Label names the sequence, for example its thread or object.
	Label(name string)
	// Freeze marks the memory as used up: later symbols are counted but not encoded.
	Freeze()
	// Bytes returns the approximate memory of the encoder in bytes. It is cheap.
	Bytes() int64
	// Encode returns the encoding of everything appended so far. The encoder may continue;
	// the encoding does not change.
	Encode() Encoding
}

// Encoding is the result of an encoder. It is immutable.
type Encoding interface {
	// String returns the text form, without a trailing newline.
	fmt.Stringer
	// MarshalJSON returns everything the encoding holds, including statistics.
	json.Marshaler
	// Of describes what was encoded.
	Of() Source
}

// Mergeable is an encoding that can be merged with encodings of other sequences.
type Mergeable interface {
	Encoding
	// Merge returns the encoding of the receiver's sequences followed by those of others,
	// which must have the same kind and options; their alphabets may differ.
	Merge(others []Encoding) (Encoding, error)
}

// Lossless is an encoding that can be decoded.
type Lossless interface {
	Encoding
	// Exact reports whether nothing was left out: some encodings have options that leave
	// out details. The other methods may be used only if it is true.
	Exact() bool
	// Names returns the names of the symbols (see [Alphabet.Names]).
	Names() []string
	// Decode returns the symbols of sequence i, 0 to Of().Sequences-1.
	Decode(i int) iter.Seq[Symbol]
}

// Graph is an encoding that can be drawn as nodes and edges.
type Graph interface {
	Encoding
	Dot() string     // for Graphviz
	Mermaid() string // for Markdown
}

// Drawing is an encoding that can be drawn as an SVG.
type Drawing interface {
	Encoding
	SVG() string
}

// Limits are the limits of an encoder.
type Limits struct {
	// Budget is the number of bytes the encoder may hold; 0 means unlimited. Symbols beyond
	// it are counted but not encoded.
	Budget int64
}

// Source describes what an encoding was made from.
type Source struct {
	Sequences int      // number of sequences
	Truncated int      // sequences whose ends are missing
	Symbols   int64    // symbols received
	Encoded   int64    // symbols encoded; fewer than Symbols if the budget was used up
	Labels    []string // of the sequences; "" if a sequence has none; nil if none has
	Digests   []Digest
}

// Complete reports whether every received symbol is encoded.
func (s *Source) Complete() bool { return s.Encoded == s.Symbols }

// Of implements [Encoding] for types that embed a Source.
func (s *Source) Of() Source { return *s }

// Intake keeps an encoder's account of its input. Encoders embed it.
type Intake struct {
	Alphabet  *Alphabet
	Limits    Limits
	symbols   int64 // received
	digest    Digest
	Truncated bool
	Name      string
	Full      bool // the budget is used up; nothing more is encoded
}

// budgetBlock is the number of symbols encoded between two checks of the budget.
const budgetBlock = 4096

// Consume calls encode with blocks of symbols as long as the budget allows. After each
// block it calls bytes to learn the memory used.
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

func (in *Intake) Truncate() { in.Truncated = true }

func (in *Intake) Label(name string) { in.Name = name }

func (in *Intake) Freeze() { in.Full = true }

// Source describes the input so far.
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

// Joined returns the Source of the sequences of s followed by those of o.
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

// Remark returns the last line of the text form of an incomplete encoding, with a leading
// newline; "" if the encoding is complete.
func (s *Source) Remark() string {
	if s.Complete() {
		return ""
	}
	return fmt.Sprintf("\n%s the first %d of %d symbols: encoder_budget is used up", RemarkMark, s.Encoded, s.Symbols)
}

// About returns lines that say what is encoded, and what is missing, for pictures.
func (s *Source) About() []string {
	line := fmt.Sprintf("%d symbols of %d sequences", s.Symbols, s.Sequences)
	if s.Sequences == 1 {
		line = fmt.Sprintf("%d symbols", s.Symbols)
	}
	switch {
	case !s.Complete():
		line += fmt.Sprintf(", of which the first %d are encoded: encoder_budget is used up", s.Encoded)
	case s.Truncated > 0:
		line += fmt.Sprintf("; the ends of %d sequences are missing", s.Truncated)
	}
	return []string{line}
}

// SourceJSON is the JSON form of a Source.
type SourceJSON struct {
	Sequences int      `json:"sequences"`
	Truncated int      `json:"truncated,omitempty"`
	Symbols   int64    `json:"symbols"`
	Encoded   int64    `json:"encoded,omitempty"` // only if it differs from Symbols
	Labels    []string `json:"labels,omitempty"`
}

func (s *Source) JSON() SourceJSON {
	j := SourceJSON{Sequences: s.Sequences, Truncated: s.Truncated, Symbols: s.Symbols, Labels: s.Labels}
	if !s.Complete() {
		j.Encoded = s.Encoded
	}
	return j
}

// Marshal returns the JSON of v without escaping < and > in function names.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// Digest is a hash of a sequence of names, and its length. Equal sequences have equal
// digests, also over different alphabets; a collision is practically impossible.
type Digest struct {
	h uint64
	N int64
}

// Add appends symbols to the digest; hashes are the name hashes of their alphabet.
func (d *Digest) Add(symbols []Symbol, hashes []uint64) {
	h := d.h
	for _, s := range symbols {
		h = (h ^ hashes[s]) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	d.h = h
	d.N += int64(len(symbols))
}

// Verify decodes every sequence of e and compares it with the digest of the encoder's
// input. An error is a defect of this package.
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

// ErrUnlike is returned by Merge for encodings of different kinds or options.
var ErrUnlike = errors.New("encodings of different kinds or options cannot be merged")
