package structure

import (
	"iter"
	"slices"
	"strconv"

	"endoscope/operators/encoders"
)

// RunLengths encodes a sequence by its runs of equal symbols.
type RunLengths struct {
	encoders.Intake
	options RLEOptions
	runs    []Run
	stats   []encoders.Stats // of runs; nil without times
}

// RLEOptions of [NewRunLengths].
type RLEOptions struct {
	// Cutoff has runs longer than it encoded as long, whatever their length; 0
	// means that none is.
	Cutoff int
	// Groups has groups of up to so many runs that follow each other directly
	// written once, with how often; 0: none are. At most MaxGroup.
	Groups int
}

// NewRunLengths returns an encoder for a sequence over a.
func NewRunLengths(a *encoders.Alphabet, o RLEOptions, l encoders.Limits) *RunLengths {
	o.Groups = min(o.Groups, MaxGroup)
	return &RunLengths{Intake: encoders.Intake{Alphabet: a, Limits: l}, options: o}
}

// Run is N times the symbol.
type Run struct {
	Symbol encoders.Symbol
	N      int64
}

// Append implements [Encoder].
func (e *RunLengths) Append(symbols []encoders.Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *RunLengths) encode(symbols []encoders.Symbol, times []int64) {
	first := len(e.runs)
	if first > 0 {
		first-- // it may go on
	}
	for i := 0; i < len(symbols); {
		s, n := symbols[i], 1
		for i+n < len(symbols) && symbols[i+n] == s {
			n++
		}
		i += n
		if last := len(e.runs) - 1; last >= 0 && e.runs[last].Symbol == s {
			e.runs[last].N += int64(n)
		} else {
			e.runs = append(e.runs, Run{s, int64(n)})
		}
	}
	if times != nil {
		e.time(first, symbols, times)
	}
}

// time adds times of symbols to the statistics of the runs from the first on.
func (e *RunLengths) time(run int, symbols []encoders.Symbol, times []int64) {
	for len(e.stats) < len(e.runs) {
		e.stats = append(e.stats, encoders.Stats{})
	}
	for i, s := range symbols {
		for e.runs[run].Symbol != s { // at most one step: neighbours differ
			run++
		}
		e.stats[run].Add(times[i])
	}
}

// Bytes implements [Encoder].
func (e *RunLengths) Bytes() int64 {
	const run, stats = 16, 40
	return int64(len(e.runs))*run + int64(len(e.stats))*stats
}

// Encode implements [Encoder].
func (e *RunLengths) Encode() encoders.Encoding {
	// A copy, since the last run of the encoder's own may go on.
	return &RLE{
		Source: e.Source(), names: e.Alphabet.Names(), cutoff: int64(e.options.Cutoff), longest: e.options.Groups,
		runs: slices.Clone(e.runs), stats: slices.Clone(e.stats), ends: []int{len(e.runs)},
	}
}

// RLE is the run-length encoding of sequences.
type RLE struct {
	encoders.Source
	names   []string
	cutoff  int64
	longest int              // of the groups that are written once
	runs    []Run            // of all sequences
	stats   []encoders.Stats // of each run; nil without times
	ends    []int            // of each sequence in runs
}

// Exact implements [Lossless].
func (e *RLE) Exact() bool { return e.cutoff == 0 }

// Names implements [Lossless].
func (e *RLE) Names() []string { return e.names }

// Runs are those of sequence i.
func (e *RLE) Runs(i int) []Run {
	from, to := e.span(i)
	return e.runs[from:to:to]
}

func (e *RLE) span(i int) (from, to int) {
	if i > 0 {
		from = e.ends[i-1]
	}
	return from, e.ends[i]
}

// Decode implements [Lossless].
func (e *RLE) Decode(i int) iter.Seq[encoders.Symbol] {
	return func(yield func(encoders.Symbol) bool) {
		for _, r := range e.Runs(i) {
			for range r.N {
				if !yield(r.Symbol) {
					return
				}
			}
		}
	}
}

// String has a line for each sequence: A 9:B C 3:D, and with a cutoff of 3
// A B* C 3:D. Repeated groups are 4:( A 2:B ).
func (e *RLE) String() string {
	var b []byte
	for i := range e.ends {
		if i > 0 {
			b = append(b, '\n')
		}
		for j, g := range e.groups(e.Runs(i), e.longest) {
			if j > 0 {
				b = append(b, ' ')
			}
			b = e.appendGroup(b, g)
		}
	}
	return string(b) + e.Remark()
}

// appendRun appends n times what name appends.
func appendRun(b []byte, n, cutoff int64, name func([]byte) []byte) []byte {
	switch {
	case n == 1:
		return name(b)
	case cutoff > 0 && n > cutoff:
		return append(name(b), '*')
	}
	b = strconv.AppendInt(b, n, 10)
	return name(append(b, ':'))
}

// MarshalJSON implements [Encoding]. Sequences are lists of runs; n is left out
// of those longer than the cutoff.
func (e *RLE) MarshalJSON() ([]byte, error) {
	type run struct {
		Symbol string          `json:"symbol"`
		N      int64           `json:"n,omitempty"`
		Long   bool            `json:"long,omitempty"`
		Stats  *encoders.Stats `json:"stats,omitempty"`
	}
	sequences := make([][]run, len(e.ends))
	for i := range sequences {
		from, to := e.span(i)
		sequences[i] = make([]run, 0, to-from)
		for j := from; j < to; j++ {
			r := run{Symbol: e.names[e.runs[j].Symbol], N: e.runs[j].N}
			if e.cutoff > 0 && r.N > e.cutoff {
				r.N, r.Long = 0, true
			}
			if e.stats != nil {
				r.Stats = &e.stats[j]
			}
			sequences[i] = append(sequences[i], r)
		}
	}
	return encoders.Marshal(struct {
		Encoding string `json:"encoding"`
		encoders.SourceJSON
		Cutoff int64   `json:"cutoff,omitempty"`
		Runs   [][]run `json:"runs"`
	}{"rle", e.JSON(), e.cutoff, sequences})
}

// Merge implements [Mergeable]: the sequences stay apart.
func (e *RLE) Merge(others []encoders.Encoding) (encoders.Encoding, error) {
	a := encoders.AlphabetOf(e.names)
	m := &RLE{Source: e.Source, cutoff: e.cutoff, longest: e.longest, runs: slices.Clone(e.runs), stats: slices.Clone(e.stats), ends: slices.Clone(e.ends)}
	for _, other := range others {
		o, ok := other.(*RLE)
		if !ok || o.cutoff != e.cutoff || o.longest != e.longest || (o.stats != nil) != (e.stats != nil) && len(o.runs) > 0 && len(e.runs) > 0 {
			return nil, encoders.ErrUnlike
		}
		to := a.Translate(o.names)
		for _, end := range o.ends {
			m.ends = append(m.ends, len(m.runs)+end)
		}
		for _, r := range o.runs {
			m.runs = append(m.runs, Run{to[r.Symbol], r.N})
		}
		m.stats = append(m.stats, o.stats...)
		m.Source = m.Joined(o.Source)
	}
	m.names = a.Names()
	return m, nil
}
