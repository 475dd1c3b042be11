package encoders

import (
	"fmt"
	"math"
	"slices"
)

// MaxWindow is the longest window that [LocalityEncoder] measures.
const MaxWindow = 1 << 20

// LocalityEncoder measures how few distinct symbols a sequence has over a short time
// (Hwang, "method invocation localities"): the mean, over all windows of w symbols, each
// shifted by one, of distinct symbols / w. A smaller value is better locality.
//
// It measures every w at once, in constant time per symbol. An occurrence of a symbol at i
// whose previous occurrence is g symbols back is the first of its symbol in min(g, w) of
// the windows that contain it. The sum of distinct symbols over all windows therefore
// follows from the frequency of each g and, for windows cut by the borders of the sequence,
// from the first and last position of each symbol (Denning's working set, whose mean size
// this is).
type LocalityEncoder struct {
	Intake
	window int
	gaps   gaps
	first  []int64 // by symbol: 1 + its first position; 0: none yet
	last   []int64 // by symbol: its last position
	n      int64   // symbols so far
}

// gaps counts occurrences by distance to the previous one; distances above MaxWindow are in
// the last entry.
type gaps []int64

// NewLocalityEncoder returns an encoder for a sequence over a. Its encoding shows windows
// of w symbols; 0 means the number of distinct symbols at the end, which is the paper's
// choice.
func NewLocalityEncoder(a *Alphabet, w int, l Limits) (*LocalityEncoder, error) {
	if w < 0 || w > MaxWindow {
		return nil, fmt.Errorf("locality is measured in windows of 1 to %d symbols, not %d", MaxWindow, w)
	}
	return &LocalityEncoder{Intake: Intake{Alphabet: a, Limits: l}, window: w}, nil
}

// Append implements [Encoder]; it ignores times.
func (e *LocalityEncoder) Append(symbols []Symbol, _ []int64) {
	e.Consume(symbols, nil, e.encode, e.Bytes)
}

func (e *LocalityEncoder) encode(symbols []Symbol, _ []int64) {
	for _, s := range symbols {
		if int(s) >= len(e.first) {
			e.first = append(e.first, make([]int64, int(s)+1-len(e.first))...)
			e.last = append(e.last, make([]int64, int(s)+1-len(e.last))...)
		}
		if e.first[s] == 0 {
			e.first[s] = e.n + 1
		} else {
			g := min(e.n-e.last[s], MaxWindow)
			if int(g) >= len(e.gaps) {
				e.gaps = append(e.gaps, make([]int64, int(g)+1-len(e.gaps))...)
			}
			e.gaps[g]++
		}
		e.last[s] = e.n
		e.n++
	}
}

func (e *LocalityEncoder) Bytes() int64 {
	return 8 * int64(cap(e.gaps)+cap(e.first)+cap(e.last))
}

// Encode implements [Encoder]. It returns a [*Locality].
func (e *LocalityEncoder) Encode() Encoding {
	p := localityPart{n: e.n}
	var used []Symbol
	for s, first := range e.first {
		if first > 0 {
			p.first = append(p.first, first-1)
			p.last = append(p.last, e.last[s])
			used = append(used, Symbol(s))
		}
	}
	return &Locality{Source: e.Source(), window: e.window, gaps: slices.Clone(e.gaps), parts: []localityPart{p}, names: e.Alphabet.Names(), used: used}
}

// Locality summarizes the windows of one or more sequences.
type Locality struct {
	Source
	window int // 0: Distinct
	gaps   gaps
	parts  []localityPart // by sequence
	names  []string
	used   []Symbol // symbols that occur
}

// localityPart holds the first and last positions of the symbols of a sequence.
type localityPart struct {
	n           int64
	first, last []int64
}

// Distinct returns the number of distinct symbols.
func (l *Locality) Distinct() int { return len(l.used) }

// Windows returns the number of windows of w symbols; a window lies in one sequence.
func (l *Locality) Windows(w int) (n int64) {
	for _, p := range l.parts {
		n += max(0, p.n-int64(w)+1)
	}
	return n
}

// Mean returns the locality for windows of w symbols, 1 to MaxWindow; NaN if every sequence
// is shorter.
func (l *Locality) Mean(w int) float64 {
	windows := l.Windows(w)
	if windows == 0 || w < 1 || w > MaxWindow {
		return math.NaN()
	}
	width := int64(w)
	var sum int64
	for g, n := range l.gaps {
		sum += min(int64(g), width) * n
	}
	for _, p := range l.parts {
		// The sum so far has a window starting at every symbol; subtract those cut by the
		// end.
		for i := range p.first {
			sum += min(width, p.first[i]+1)
			sum -= max(0, p.last[i]-max(-1, p.n-width))
		}
	}
	return float64(sum) / float64(windows) / float64(w)
}

// Window returns the number of symbols of the windows shown.
func (l *Locality) Window() int {
	if l.window == 0 {
		return min(l.Distinct(), MaxWindow)
	}
	return l.window
}

// Value returns the locality for windows of Window symbols, 0 to 1; NaN if there are none.
func (l *Locality) Value() float64 { return l.Mean(l.Window()) }

// Merge implements [Mergeable]; the mean is over the windows of all sequences.
func (l *Locality) Merge(others []Encoding) (Encoding, error) {
	alphabet := NewAlphabet()
	m := &Locality{window: l.window}
	seen := map[Symbol]bool{}
	for _, e := range append([]Encoding{l}, others...) {
		o, ok := e.(*Locality)
		if !ok || o.window != l.window {
			return nil, ErrUnlike
		}
		m.Source = m.Joined(o.Source)
		if len(o.gaps) > len(m.gaps) {
			m.gaps = append(m.gaps, make([]int64, len(o.gaps)-len(m.gaps))...)
		}
		for g, n := range o.gaps {
			m.gaps[g] += n
		}
		m.parts = append(m.parts, o.parts...)
		symbols := alphabet.Translate(o.names)
		for _, s := range o.used {
			if x := symbols[s]; !seen[x] {
				seen[x] = true
				m.used = append(m.used, x)
			}
		}
	}
	m.names = alphabet.Names()
	return m, nil
}

// String returns the value and the size of the source.
func (l *Locality) String() string {
	w := l.Window()
	if n := l.Windows(w); n == 0 || w == 0 {
		return fmt.Sprintf("no window of %d symbols%s", w, l.Remark())
	}
	return fmt.Sprintf("%.4g of windows of %d%s", l.Value(), w, l.Remark())
}

func (l *Locality) MarshalJSON() ([]byte, error) {
	w := l.Window()
	j := struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Window   int      `json:"window"`
		Windows  int64    `json:"windows"`
		Distinct int      `json:"distinct"`
		Locality *float64 `json:"locality"`
	}{Encoding: "locality", SourceJSON: l.JSON(), Window: w, Windows: l.Windows(w), Distinct: l.Distinct()}
	if v := l.Value(); !math.IsNaN(v) {
		j.Locality = &v
	}
	return Marshal(j)
}
