package operators

import (
	"encoding/binary"
	"slices"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
)

// sketch is SKETCH(x): the buckets of QUANTILE and how many values each has, as
// BYTES that can be kept, sent and added up: what SKETCH_QUANTILE gives of several
// is what QUANTILE gives of all their values together, to the last bit.
//
// A sketch is its buckets in ascending order: the distance from the one before (the
// first one's from 0) as a signed varint, and the count as an unsigned one.
type sketch struct{ quantile }

func (a *sketch) output(groups []uint32, out *batch.Column, _ instant) error {
	var text []byte
	for i, g := range groups {
		if a.sizes[g] == 0 {
			out.Append(i, batch.NullOf(batch.Bytes))
			continue
		}
		a.sorted = a.of(g, a.sorted[:0])
		slices.SortFunc(a.sorted, byWord)
		text = text[:0]
		before := int64(0)
		for _, p := range a.sorted {
			text = binary.AppendVarint(text, int64(p.word)-before)
			text = binary.AppendUvarint(text, uint64(p.count))
			before = int64(p.word)
		}
		out.Append(i, batch.Value{Type: batch.Bytes, S: string(text)})
	}
	return nil
}

// sketchQuantile is SKETCH_QUANTILE(s, q): QUANTILE over all values of the sketches.
type sketchQuantile struct {
	quantile
	bad bool // one of them is no sketch
}

func newSketchQuantile(f *plan.Agg) (accumulator, error) {
	if len(f.Params) != 1 {
		return nil, plan.Errorf(-1, -1, "%s needs the quantile", f)
	}
	a, err := newQuantile(f, parameter(f.Params[0]))
	if err != nil {
		return nil, err
	}
	return &sketchQuantile{quantile: *a.(*quantile)}, nil
}

func (a *sketchQuantile) reset() {
	a.quantile.reset()
	a.bad = false
}

func (a *sketchQuantile) update(in *folding) {
	for _, r := range in.rows {
		if !a.addSketch(in.groups[r], in.arg.Values[in.arg.Code[r]]) {
			a.bad = true
		}
	}
}

// addSketch adds a sketch to a group. It reports false if it is none.
func (a *sketchQuantile) addSketch(group uint32, text string) bool {
	b := []byte(text)
	bucket, first := int64(0), true
	for len(b) > 0 {
		step, n := binary.Varint(b)
		if n <= 0 || !first && step <= 0 {
			return false
		}
		b = b[n:]
		count, n := binary.Uvarint(b)
		bucket += step
		if n <= 0 || count == 0 || count > 1<<62 || bucket < -2*bucketBias || bucket > 2*bucketBias {
			return false
		}
		b, first = b[n:], false
		a.addOne(group, uint64(bucket)).count += int64(count) - 1
	}
	return true
}

func (a *sketchQuantile) output(groups []uint32, out *batch.Column, at instant) error {
	if a.bad {
		return plan.Errorf(-1, -1, "SKETCH_QUANTILE was given what is no sketch").WithHint("SKETCH(x) makes one")
	}
	return a.quantile.output(groups, out, at)
}
