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
	// Cutoff encodes longer runs as long, without their length; 0 disables it.
	Cutoff int
	// Groups writes a directly repeated group of up to this many runs once, with its count;
	// 0 disables it. At most MaxGroup.
	Groups int
}

// NewRunLengths returns an encoder for a sequence over a.
func NewRunLengths(a *encoders.Alphabet, o RLEOptions, l encoders.Limits) *RunLengths {
	o.Groups = min(o.Groups, MaxGroup)
	return &RunLengths{Intake: encoders.Intake{Alphabet: a, Limits: l}, options: o}
}

// Run is N repetitions of Symbol.
type Run struct {
	Symbol encoders.Symbol
	N      int64
}

func (e *RunLengths) Append(symbols []encoders.Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *RunLengths) encode(symbols []encoders.Symbol, times []int64) {
	first := len(e.runs)
	if first > 0 {
		first-- // the last run may continue
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

// time adds the times of symbols to the statistics of the runs from run on.
func (e *RunLengths) time(run int, symbols []encoders.Symbol, times []int64) {
	for len(e.stats) < len(e.runs) {
		e.stats = append(e.stats, encoders.Stats{})
	}
	for i, s := range symbols {
		for e.runs[run].Symbol != s { // at most one step: adjacent runs differ
			run++
		}
		e.stats[run].Add(times[i])
	}
}

func (e *RunLengths) Bytes() int64 {
	const run, stats = 16, 40
	return int64(len(e.runs))*run + int64(len(e.stats))*stats
}

func (e *RunLengths) Encode() encoders.Encoding {
	// Copy, because the encoder's last run may continue.
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
	longest int              // longest group that is written once; 0: none
	runs    []Run            // of all sequences
	stats   []encoders.Stats // of each run; nil without times
	ends    []int            // end of each sequence in runs
}

func (e *RLE) Exact() bool { return e.cutoff == 0 }

func (e *RLE) Names() []string { return e.names }

// Runs returns the runs of sequence i.
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

// String returns one line per sequence: A 9:B C 3:D, and with a cutoff of 3 A B* C 3:D.
// Repeated groups are 4:( A 2:B ).
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

// appendRun appends a run of n of what name appends.
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

// MarshalJSON implements [Encoding]. Sequences are lists of runs; n is omitted for runs
// longer than the cutoff.
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

// Merge implements [Mergeable]; the sequences stay separate.
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
