package encoders

import (
	"cmp"
	"slices"
	"strconv"
	"time"
	"unsafe"
)

// NLevelEncoder builds a profile of calls with up to n-1 of their callers: n = 1 is the
// profile of prof, n = 2 that of gprof. Each call counts for the function alone, for the
// function with its caller, and so on up to n. Times are when calls and returns happened.
type NLevelEncoder struct {
	Intake
	Calls
	n     int
	nodes []levelNode // 0: the root of the trie; paths lead from a function to its callers
	child map[levelKey]uint32
	ids   []uint32 // n per frame: the nodes its call counts for; 0: none
}

type levelNode struct {
	levelKey
	level int
	stats Stats
}

type levelKey struct {
	parent uint32
	symbol Symbol
}

// NewNLevelEncoder returns an encoder for the calls of a thread; n is 1 or more.
func NewNLevelEncoder(a *Alphabet, n int, l Limits) *NLevelEncoder {
	return &NLevelEncoder{
		Intake: Intake{Alphabet: a, Limits: l}, n: max(n, 1),
		nodes: make([]levelNode, 1), child: map[levelKey]uint32{},
	}
}

func (e *NLevelEncoder) Append(symbols []Symbol, times []int64) {
	e.Consume(symbols, times, e.encode, e.Bytes)
}

func (e *NLevelEncoder) encode(symbols []Symbol, times []int64) {
	for i, s := range symbols {
		at := Moment(times, i)
		if s == Return {
			if _, took, ok := e.Leave(at); ok {
				from := len(e.ids) - e.n
				for _, id := range e.ids[from:] {
					if id != 0 {
						e.nodes[id].stats.returned(took)
					}
				}
				e.ids = e.ids[:from]
			}
			continue
		}
		e.Enter(s, at)
		id := uint32(0)
		for level := 1; level <= e.n; level++ {
			if f := len(e.Frames) - level; f >= 0 {
				id = e.node(levelKey{id, e.Frames[f].symbol}, level)
				e.nodes[id].stats.Count++
			} else {
				id = 0
			}
			e.ids = append(e.ids, id)
		}
	}
}

func (e *NLevelEncoder) node(k levelKey, level int) uint32 {
	id, ok := e.child[k]
	if !ok {
		id = uint32(len(e.nodes))
		e.nodes = append(e.nodes, levelNode{levelKey: k, level: level})
		e.child[k] = id
	}
	return id
}

func (e *NLevelEncoder) Bytes() int64 {
	const mapEntry = 24
	return int64(cap(e.nodes)*int(unsafe.Sizeof(levelNode{})) + len(e.child)*mapEntry + 4*cap(e.ids) + 16*cap(e.Frames))
}

func (e *NLevelEncoder) Encode() Encoding {
	p := &Profile{Source: e.Source(), names: e.Alphabet.Names(), n: e.n}
	for _, node := range e.nodes[1:] {
		t := Tuple{Stats: node.stats, Calls: make([]Symbol, 0, node.level)}
		for k := node.levelKey; ; k = e.nodes[k.parent].levelKey {
			t.Calls = append(t.Calls, k.symbol)
			if k.parent == 0 {
				break
			}
		}
		p.tuples = append(p.tuples, t)
	}
	p.sort()
	return p
}

// Profile is an n-level profile.
type Profile struct {
	Source
	names  []string
	n      int
	tuples []Tuple
}

// Tuple is a function with some of its callers, outermost first.
type Tuple struct {
	Calls []Symbol
	Stats Stats
}

// Tuples returns all tuples by length, the longest total time first.
func (p *Profile) Tuples() []Tuple { return p.tuples }

// sort orders the tuples by names and numbers only, so that the order is deterministic.
func (p *Profile) sort() {
	slices.SortFunc(p.tuples, func(x, y Tuple) int {
		return cmp.Or(
			cmp.Compare(len(x.Calls), len(y.Calls)), cmp.Compare(y.Stats.Sum, x.Stats.Sum), cmp.Compare(y.Stats.Count, x.Stats.Count),
			slices.CompareFunc(x.Calls, y.Calls, func(s, t Symbol) int { return cmp.Compare(p.names[s], p.names[t]) }),
		)
	})
}

// String returns one line per tuple: the number of calls; if timed, Σt, mean and deviation;
// and the tuple, outermost caller first.
func (p *Profile) String() string {
	timed := slices.ContainsFunc(p.tuples, func(t Tuple) bool { return t.Stats.Timed > 0 })
	b := []byte(RemarkMark + " calls")
	if timed {
		b = append(b, " total mean deviation"...)
	}
	b = append(b, " callers..."...)
	for i := range p.tuples {
		t := &p.tuples[i]
		b = strconv.AppendInt(append(b, '\n'), t.Stats.Count, 10)
		if timed {
			for _, ns := range []float64{float64(t.Stats.Sum), t.Stats.Mean(), t.Stats.Deviation()} {
				b = append(append(b, ' '), time.Duration(ns).String()...)
			}
		}
		for _, s := range t.Calls {
			b = AppendName(append(b, ' '), p.names, s)
		}
	}
	return string(b) + p.Remark()
}

func (p *Profile) MarshalJSON() ([]byte, error) {
	type tuple struct {
		Calls     []string `json:"calls"`
		Stats     Stats    `json:"stats"`
		Mean      float64  `json:"mean_ns,omitempty"`
		Deviation float64  `json:"deviation_ns,omitempty"`
	}
	tuples := make([]tuple, len(p.tuples))
	for i := range tuples {
		t := &p.tuples[i]
		tuples[i] = tuple{Stats: t.Stats, Mean: t.Stats.Mean(), Deviation: t.Stats.Deviation()}
		for _, s := range t.Calls {
			tuples[i].Calls = append(tuples[i].Calls, p.names[s])
		}
	}
	return Marshal(struct {
		Encoding string `json:"encoding"`
		SourceJSON
		N      int     `json:"n"`
		Tuples []tuple `json:"tuples"`
	}{"nlevel", p.JSON(), p.n, tuples})
}

// Merge implements [Mergeable]; equal tuples are added up.
func (p *Profile) Merge(others []Encoding) (Encoding, error) {
	a := AlphabetOf(p.names)
	m := &Profile{Source: p.Source, n: p.n, tuples: slices.Clone(p.tuples)}
	at := map[string]int{}
	key := func(calls []Symbol) string {
		var b []byte
		for _, s := range calls {
			b = append(b, byte(s), byte(s>>8), byte(s>>16), byte(s>>24))
		}
		return string(b)
	}
	for i := range m.tuples {
		at[key(m.tuples[i].Calls)] = i
	}
	for _, other := range others {
		o, ok := other.(*Profile)
		if !ok || o.n != p.n {
			return nil, ErrUnlike
		}
		to := a.Translate(o.names)
		for _, t := range o.tuples {
			calls := make([]Symbol, len(t.Calls))
			for i, s := range t.Calls {
				calls[i] = to[s]
			}
			k := key(calls)
			if i, have := at[k]; have {
				m.tuples[i].Stats.Merge(&t.Stats)
				continue
			}
			at[k] = len(m.tuples)
			m.tuples = append(m.tuples, Tuple{calls, t.Stats})
		}
		m.Source = m.Joined(o.Source)
	}
	m.names = a.Names()
	m.sort()
	return m, nil
}
