package agg

import (
	"encoding/binary"
	"slices"

	"endoscope/operators/agg/fold"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// sketch is SKETCH(x): the buckets of QUANTILE with the number of values in each,
// as BYTES that can be stored, sent and merged: SKETCH_QUANTILE over several
// sketches returns exactly what QUANTILE returns over all their values together.
//
// A sketch is its buckets and their counts, in the format of appendCounts.
type sketch struct{ quantile }

func (a *sketch) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	return appendStates(groups, out, func(g uint32, to []byte) []byte {
		a.sorted = a.appendGroup(g, a.sorted[:0])
		return appendCounts(to, a.sorted)
	})
}

func init() {
	define(func(_ *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
		return &sketch{}, nil
	}, "sketch")
	define(newSketchQuantile, "sketch_quantile")
}

// sketchQuantile is SKETCH_QUANTILE(s, q): QUANTILE over all values of the sketches.
type sketchQuantile struct {
	quantile
	bad bool // one of them is not a valid sketch
}

func newSketchQuantile(f *plan.Agg, _ types.Type, _ *fold.Lanes) (fold.Accumulator, error) {
	if len(f.Params) != 1 {
		return nil, plan.Errorf(-1, -1, "%s needs the quantile", f)
	}
	a, err := newQuantile(f, parameter(f.Params[0]))
	if err != nil {
		return nil, err
	}
	return &sketchQuantile{quantile: *a.(*quantile)}, nil
}

func (a *sketchQuantile) Reset() {
	a.quantile.Reset()
	a.bad = false
}

func (a *sketchQuantile) Update(in *fold.Input) {
	for _, r := range in.Rows {
		if !a.addEncoded(in.Groups[r], []byte(in.Arg.Values[in.Arg.Code[r]]), -2*bucketBias, 2*bucketBias) {
			a.bad = true
		}
	}
}

// noSketch is the bucket that marks, in a state, that a value was not a valid
// sketch.
const noSketch = uint64(1) << 63

func (a *sketchQuantile) counted() []pair {
	if a.bad {
		return append(slices.Clip(a.entries), pair{word: noSketch, count: 1})
	}
	return a.entries
}

func (a *sketchQuantile) Merge(in *fold.Input, state []batch.Column) error {
	for _, r := range in.Rows {
		a.bad = a.bad || uint64(state[0].Int[r]) == noSketch
	}
	return a.quantile.Merge(in, state)
}

func (a *sketchQuantile) Output(groups []uint32, out *batch.Column, at fold.Instant) error {
	if a.bad {
		return plan.Errorf(-1, -1, "the argument of SKETCH_QUANTILE is not a sketch").WithHint("SKETCH(x) makes one")
	}
	return a.quantile.Output(groups, out, at)
}

// appendStates appends the states of groups to out; the state of no values is
// NULL.
func appendStates(groups []uint32, out *batch.Column, save func(group uint32, to []byte) []byte) error {
	var state []byte
	for i, g := range groups {
		if state = save(g, state[:0]); len(state) == 0 {
			out.Append(i, types.NullOf(types.Bytes))
			continue
		}
		out.Append(i, types.Value{Type: types.Bytes, S: string(state)})
	}
	return nil
}

// appendCounts appends entries, which it sorts by their words as signed numbers:
// the difference of each word from the previous one (the first one's from 0) as a
// signed varint, and the count as an unsigned one.
func appendCounts(to []byte, entries []pair) []byte {
	slices.SortFunc(entries, byWord)
	before := int64(0)
	for _, p := range entries {
		to = binary.AppendVarint(to, int64(p.word)-before)
		to = binary.AppendUvarint(to, uint64(p.count))
		before = int64(p.word)
	}
	return to
}

// addEncoded adds what appendCounts wrote to a group, with words from least to
// most. It returns false if b has another format.
func (p *pairs) addEncoded(group uint32, b []byte, least, most int64) bool {
	word, first := int64(0), true
	for len(b) > 0 {
		step, n := binary.Varint(b)
		if n <= 0 {
			return false
		}
		b = b[n:]
		count, n := binary.Uvarint(b)
		next := word + step
		if n <= 0 || count == 0 || count > 1<<62 || !first && next <= word || next < least || next > most {
			return false
		}
		b, word, first = b[n:], next, false
		p.addOne(group, uint64(word)).count += int64(count) - 1
	}
	return true
}
