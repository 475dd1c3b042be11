package encoders

import (
	"fmt"
	"strings"
)

// MaxLoop is the longest period that [LoopEncoder] accepts.
const MaxLoop = 1 << 16

// LoopEncoder measures how much of a sequence repeats after n symbols, for several n in one
// pass (Hwang, "control patterns"): a symbol is a hit if it equals the symbol n before it.
// A hit and the n symbols before it are an instance of the pattern loop-n. Loop-1 is the
// pattern "consecutive".
type LoopEncoder struct {
	Intake
	loops  []Loop
	past   []Symbol // the last symbols, by position modulo len(past)
	n      int64
	period int // the longest period of loops
}

// Loop is the result for one period.
type Loop struct {
	Period  int   // n
	Hits    int64 // symbols equal to the one n before
	Tried   int64 // symbols that have one n before
	Covered int64 // symbols that are part of an instance
	Symbols int64
	end     int64 // position after the last covered symbol
}

// NewLoopEncoder returns an encoder for a sequence over a and these periods.
func NewLoopEncoder(a *Alphabet, periods []int, l Limits) (*LoopEncoder, error) {
	e := &LoopEncoder{Intake: Intake{Alphabet: a, Limits: l}}
	for _, p := range periods {
		if p < 1 || p > MaxLoop {
			return nil, fmt.Errorf("a loop has a period of 1 to %d symbols, not %d", MaxLoop, p)
		}
		e.loops = append(e.loops, Loop{Period: p})
		e.period = max(e.period, p)
	}
	size := 1
	for size <= e.period {
		size *= 2
	}
	e.past = make([]Symbol, size)
	return e, nil
}

// Append implements [Encoder]; it ignores times.
func (e *LoopEncoder) Append(symbols []Symbol, _ []int64) {
	e.Consume(symbols, nil, e.encode, e.Bytes)
}

func (e *LoopEncoder) encode(symbols []Symbol, _ []int64) {
	mask := int64(len(e.past) - 1)
	for _, s := range symbols {
		i := e.n
		for j := range e.loops {
			l := &e.loops[j]
			n := int64(l.Period)
			if i >= n && e.past[(i-n)&mask] == s {
				l.Hits++
				l.Covered += i + 1 - max(i-n, l.end)
				l.end = i + 1
			}
		}
		e.past[i&mask] = s
		e.n++
	}
}

func (e *LoopEncoder) Bytes() int64 { return 4*int64(len(e.past)) + 48*int64(len(e.loops)) }

// Encode implements [Encoder]. It returns [*Loops].
func (e *LoopEncoder) Encode() Encoding {
	l := &Loops{Source: e.Source(), loops: append([]Loop(nil), e.loops...)}
	for i := range l.loops {
		l.loops[i].Symbols = e.n
		l.loops[i].Tried = max(0, e.n-int64(l.loops[i].Period))
	}
	return l
}

// Loops is the result for each period in one or more sequences.
type Loops struct {
	Source
	loops []Loop
}

// Loops returns one entry per period, in the order passed to the encoder.
func (l *Loops) Loops() []Loop { return l.loops }

// HitRatio returns hits / (length - n), or 0 for a sequence that is too short.
func (l *Loop) HitRatio() float64 { return ratio(l.Hits, l.Tried) }

// CoveredRatio returns covered / length.
func (l *Loop) CoveredRatio() float64 { return ratio(l.Covered, l.Symbols) }

func ratio(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// Merge implements [Mergeable]. No instance spans sequences.
func (l *Loops) Merge(others []Encoding) (Encoding, error) {
	m := &Loops{Source: l.Source, loops: append([]Loop(nil), l.loops...)}
	for _, e := range others {
		o, ok := e.(*Loops)
		if !ok || len(o.loops) != len(l.loops) {
			return nil, ErrUnlike
		}
		m.Source = m.Joined(o.Source)
		for i := range m.loops {
			a, b := &m.loops[i], &o.loops[i]
			if a.Period != b.Period {
				return nil, ErrUnlike
			}
			a.Hits, a.Tried, a.Covered, a.Symbols = a.Hits+b.Hits, a.Tried+b.Tried, a.Covered+b.Covered, a.Symbols+b.Symbols
		}
	}
	return m, nil
}

// String returns one line per period.
func (l *Loops) String() string {
	var lines []string
	for i := range l.loops {
		p := &l.loops[i]
		lines = append(lines, fmt.Sprintf("loop-%d: %.4g hit (%d of %d), %.4g covered (%d of %d)",
			p.Period, p.HitRatio(), p.Hits, p.Tried, p.CoveredRatio(), p.Covered, p.Symbols))
	}
	return strings.Join(lines, "\n") + l.Remark()
}

func (l *Loops) MarshalJSON() ([]byte, error) {
	type loop struct {
		Period  int     `json:"period"`
		Hits    int64   `json:"hits"`
		Tried   int64   `json:"tried"`
		Hit     float64 `json:"hit_ratio"`
		Covered int64   `json:"covered"`
		Symbols int64   `json:"symbols"`
		Cover   float64 `json:"covered_ratio"`
	}
	loops := []loop{}
	for i := range l.loops {
		p := &l.loops[i]
		loops = append(loops, loop{p.Period, p.Hits, p.Tried, p.HitRatio(), p.Covered, p.Symbols, p.CoveredRatio()})
	}
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		Loops []loop `json:"loops"`
	}{"loops", l.JSON(), loops})
}
