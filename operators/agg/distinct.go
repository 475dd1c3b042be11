package agg

import (
	"encoding/binary"

	"github.com/axiomhq/hyperloglog"

	"endoscope/operators/agg/fold"
	"endoscope/operators/agg/states"
	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// exactValues is the number of distinct values of a group up to which
// COUNT(DISTINCT x) and TOPK are exact.
const exactValues = 10_000

// countDistinct is COUNT(DISTINCT x). A group's values are kept until there are
// too many; then they are added to a HyperLogLog sketch (2^14 registers, standard
// error 0.8 %), as are later values. The registers depend only on the set of
// values, not on their order or site.
type countDistinct struct {
	pairs
	values   *identities
	sketches map[uint32]*hyperloglog.Sketch
	exact    uint32
	gather   []pair // scratch
}

func newCountDistinct(arg types.Type) *countDistinct {
	return &countDistinct{values: newIdentities(arg), sketches: map[uint32]*hyperloglog.Sketch{}, exact: exactValues}
}

func (a *countDistinct) Reset() {
	a.pairs.Reset()
	clear(a.sketches)
	a.values.reset()
}

func (a *countDistinct) Update(in *fold.Input) {
	words := in.Words
	a.values.number(in.Arg, in.Rows, words)
	if a.values.crowded(len(a.entries)) {
		a.compact(a.values, nil)
		a.values.number(in.Arg, in.Rows, words)
	}
	for _, r := range in.Rows {
		a.insert(in.Groups[r], words[r])
	}
}

func (a *countDistinct) insert(g uint32, word uint64) {
	if len(a.sketches) > 0 {
		if s := a.sketches[g]; s != nil {
			s.InsertHash(a.values.stableHash(word))
			return
		}
	}
	a.addOne(g, word)
	if a.sizes[g] > a.exact {
		a.estimate(g)
	}
}

// estimate converts the state of a group to a sketch.
func (a *countDistinct) estimate(g uint32) *hyperloglog.Sketch {
	s := hyperloglog.NewNoSparse()
	a.gather = a.appendGroup(g, a.gather[:0])
	for i := range a.gather {
		s.InsertHash(a.values.stableHash(a.gather[i].word))
	}
	a.sketches[g] = s
	return s
}

// distinctVersion is the version of the state of COUNT(DISTINCT x): the number of
// values, and the values; or 0 and the registers of the sketch.
const distinctVersion = 1

func (a *countDistinct) States(groups []uint32, out []batch.Column) {
	states.AppendAll(groups, out, distinctVersion, func(g uint32) int64 { return int64(a.sizes[g]) }, func(g uint32, to []byte) []byte {
		if s := a.sketches[g]; s != nil {
			registers, err := s.MarshalBinary()
			if err != nil {
				return nil // does not happen; an empty state is invalid
			}
			return append(append(to, 0), registers...)
		}
		a.gather = a.appendGroup(g, a.gather[:0])
		to = binary.AppendUvarint(to, uint64(len(a.gather)))
		for i := range a.gather {
			to = states.AppendValue(to, a.values.value(a.gather[i].word))
		}
		return to
	})
}

func (a *countDistinct) Merge(in *fold.Input, state []batch.Column) error {
	return states.Merge(in, state, distinctVersion, a.load)
}

func (a *countDistinct) load(g uint32, state []byte) bool {
	if a.values.crowded(len(a.entries)) {
		a.compact(a.values, nil)
	}
	s := states.Reader{B: state}
	n := s.Count()
	if n == 0 && !s.Bad {
		var registers hyperloglog.Sketch
		if registers.UnmarshalBinary(s.B) != nil {
			return false
		}
		into := a.sketches[g]
		if into == nil {
			into = a.estimate(g)
			// The values are no longer counted, but the state is not empty.
			a.sizes[g] = max(a.sizes[g], 1)
		}
		return into.Merge(&registers) == nil
	}
	return a.values.each(&s, n, func(word uint64) { a.insert(g, word) }) && len(s.B) == 0
}

func (a *countDistinct) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	for _, g := range groups {
		n := int64(a.sizes[g])
		if s := a.sketches[g]; s != nil {
			n = int64(s.Estimate())
		}
		out.Int = append(out.Int, n)
	}
	return nil
}
