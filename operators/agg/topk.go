package agg

import (
	"cmp"
	"encoding/binary"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// topK is TOPK(x, n): a list of [value, count], the most frequent first, equal
// counts in order of the values. A group's counts are exact until it has too many
// different values; from then on space-saving is applied to the kept values
// (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent and Top-k
// Elements in Data Streams, ICDT 2005): a new value replaces the least frequent
// one and inherits its count. A count is then at most (rows of the group / values
// kept) too high.
//
// States are merged by adding the counts. The result is exact as long as all
// states together do not have too many different values. Otherwise a count may be
// too low by what one site did not keep, at most (rows of the group / values
// kept), and too high by twice as much: once at its site, and once where states
// are merged.
type topK struct {
	pairs
	n         int
	values    *identities
	summaries map[uint32]*summary
	exact     uint32
	sorted    []pair // scratch
}

func init() {
	define(func(f *plan.Agg, arg types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return newTopK(f, arg)
	}, "topk")
}

func newTopK(f *plan.Agg, arg types.Type) (fold.Accumulator, error) {
	if len(f.Params) != 1 || f.Params[0].IsNull || f.Params[0].I < 1 || f.Params[0].I > exactValues {
		return nil, plan.Errorf(-1, -1, "%s: TOPK gives 1 to %d values", f, exactValues).WithHint("TOPK(x, 10)")
	}
	return &topK{n: int(f.Params[0].I), values: newIdentities(arg), summaries: map[uint32]*summary{}, exact: exactValues}, nil
}

func (a *topK) Reset() {
	a.pairs.Reset()
	clear(a.summaries)
	a.values.reset()
}

func (a *topK) Update(in *fold.Input) {
	words := in.Words
	a.number(in.Arg, in.Rows, words)
	for _, r := range in.Rows {
		a.count(in.Groups[r], words[r], 1)
	}
}

// number stores the words of c's values at rows in words, by physical row.
func (a *topK) number(c *batch.Column, rows []uint16, words []uint64) {
	a.values.number(c, rows, words)
	if a.values.crowded(len(a.entries) + len(a.summaries)*int(a.exact)) {
		a.compactAll()
		a.values.number(c, rows, words)
	}
}

// count counts a value of a group n times.
func (a *topK) count(g uint32, word uint64, n int64) {
	if len(a.summaries) > 0 {
		if s := a.summaries[g]; s != nil {
			s.add(word, n)
			return
		}
	}
	a.addOne(g, word).count += n - 1
	if a.sizes[g] >= a.exact {
		a.summaries[g] = newSummary(a.appendGroup(g, nil))
	}
}

// kept returns the values that a group keeps, the oldest first while they are
// exact. They are valid until the next call.
func (a *topK) kept(g uint32) []pair {
	if s := a.summaries[g]; s != nil {
		return append(a.sorted[:0], s.heap...)
	}
	return a.appendGroup(g, a.sorted[:0])
}

func (a *topK) compactAll() {
	var kept []uint64
	for _, s := range a.summaries {
		for i := range s.heap {
			kept = append(kept, s.heap[i].word)
		}
	}
	words := a.compact(a.values, kept)
	for _, s := range a.summaries {
		clear(s.at)
		for i := range s.heap {
			s.heap[i].word = uint64(words[s.heap[i].word])
			s.at[s.heap[i].word] = i
		}
	}
}

// topKVersion is the version of the state of TOPK: the counts and values that are
// kept.
const topKVersion = 1

func (a *topK) States(groups []uint32, out []batch.Column) {
	states.AppendAll(groups, out, topKVersion, func(g uint32) int64 { return int64(a.sizes[g]) }, a.save)
}

func (a *topK) Merge(in *fold.Input, state []batch.Column) error {
	return states.Merge(in, state, topKVersion, a.load)
}

// save appends the values that are kept, each after its count.
func (a *topK) save(g uint32, to []byte) []byte {
	a.sorted = a.kept(g)
	for _, p := range a.sorted {
		to = states.AppendValue(binary.AppendUvarint(to, uint64(p.count)), a.values.value(p.word))
	}
	return to
}

// load adds a state that save wrote. If it has many different values they are
// ordered by count, so that the least frequent ones are replaced.
func (a *topK) load(group uint32, state []byte) bool {
	s := states.Reader{B: state}
	for len(s.B) > 0 {
		c := batch.New([]types.Type{a.values.typ}).Cols[0] // as many at once as fit into a column
		var rows []uint16
		var counts []int64
		for len(s.B) > 0 && len(rows) < batch.MaxRows {
			counts = append(counts, s.Occurrences())
			c.Append(len(rows), s.Value(a.values.typ, 0))
			rows = append(rows, uint16(len(rows)))
		}
		if s.Bad {
			return false
		}
		words := make([]uint64, len(rows))
		a.number(&c, rows, words)
		for i, w := range words {
			a.count(group, w, counts[i])
		}
	}
	return len(state) > 0
}

func (a *topK) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for i, g := range groups {
		a.sorted = a.kept(g)
		if len(a.sorted) == 0 {
			out.Nulls.Set(i)
			out.Any = append(out.Any, nil)
			continue
		}
		slices.SortFunc(a.sorted, func(x, y pair) int {
			return cmp.Or(cmp.Compare(y.count, x.count), compareStateValues(a.values.value(x.word), a.values.value(y.word)))
		})
		list := make([]types.Value, 0, min(a.n, len(a.sorted)))
		for _, p := range a.sorted[:cap(list)] {
			list = append(list, types.ListOf([]types.Value{a.values.value(p.word), types.Int(p.count)}))
		}
		out.Any = append(out.Any, list)
	}
	return nil
}

// summary is the state of space-saving: a heap with the rarest value on top.
type summary struct {
	heap []pair
	at   map[uint64]int // index of a word in the heap
}

func newSummary(entries []pair) *summary {
	slices.SortStableFunc(entries, func(x, y pair) int { return cmp.Compare(x.count, y.count) })
	s := &summary{heap: entries, at: make(map[uint64]int, len(entries))}
	for i := range entries {
		s.at[entries[i].word] = i
	}
	return s
}

func (s *summary) add(word uint64, n int64) {
	i, ok := s.at[word]
	if !ok {
		delete(s.at, s.heap[0].word)
		s.heap[0].word = word
		s.at[word] = 0
	}
	s.heap[i].count += n
	s.sink(i)
}

// sink restores the order below i, whose count has grown.
func (s *summary) sink(i int) {
	for {
		c := 2*i + 1
		if c >= len(s.heap) {
			return
		}
		if c+1 < len(s.heap) && s.heap[c+1].count < s.heap[c].count {
			c++
		}
		if s.heap[c].count >= s.heap[i].count {
			return
		}
		s.heap[i], s.heap[c] = s.heap[c], s.heap[i]
		s.at[s.heap[i].word], s.at[s.heap[c].word] = i, c
		i = c
	}
}

// compareStateValues orders the values of one type totally.
func compareStateValues(a, b types.Value) int {
	switch a.Type.Physical() {
	case types.PhysFloat:
		return compareDoubles(a.F, b.F)
	case types.PhysCode:
		return cmp.Compare(a.S, b.S)
	case types.PhysAny:
		return cmp.Compare(rowstore.AnyText(a.A), rowstore.AnyText(b.A))
	}
	return cmp.Compare(a.Type.Key(a.I), b.Type.Key(b.I))
}
