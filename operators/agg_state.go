package operators

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// The aggregates of plan.StateAggs: X_STATE(x) is what X keeps of the values, as BYTES
// that can be kept, sent and added up, and X_MERGE(x, state) is X of all the values
// that states are of. Where an aggregate's state is integers, these are those of
// plan.StateFields, so that whoever can fold the one can fold the other.

// loader is an accumulator that takes states which X_STATE gives.
type loader interface {
	accumulator
	// load adds a state to a group. It reports false if it is none.
	load(group uint32, state []byte) bool
}

// newState makes X_STATE.
func newState(f *plan.Agg, arg types.Type) (accumulator, error) {
	switch name := strings.TrimSuffix(f.Fn, plan.StateSuffix); name {
	case "stddev", "variance":
		if arg.Physical() == types.PhysFloat {
			return &varianceFloatState{varianceFloat{wide: wideDoubles{}}}, nil
		}
		return &varianceIntState{}, nil
	case "histogram":
		acc, err := newHistogram(f, arg)
		if err != nil {
			return nil, err
		}
		return &histogramState{*acc.(*histogram)}, nil
	case "topk":
		acc, err := newTopK(f, arg)
		if err != nil {
			return nil, err
		}
		return &topKState{topK: *acc.(*topK)}, nil
	}
	return nil, plan.Errorf(-1, -1, "there is no aggregate function %s", f.Fn)
}

// newMerge makes X_MERGE.
func newMerge(f *plan.Agg, arg types.Type) (accumulator, error) {
	var acc accumulator
	var err error
	switch name := strings.TrimSuffix(f.Fn, plan.MergeSuffix); name {
	case "stddev", "variance":
		acc = newVariance(arg, name == "stddev")
	case "histogram":
		acc, err = newHistogram(f, arg)
	case "topk":
		acc, err = newTopK(f, arg)
	}
	l, ok := acc.(loader)
	if err == nil && !ok {
		err = plan.Errorf(-1, -1, "there is no aggregate function %s", f.Fn)
	}
	return &merging{loader: l, f: f}, err
}

// merging is X_MERGE.
type merging struct {
	loader
	f   *plan.Agg
	bad bool // one of them is no state
}

func (a *merging) reset() {
	a.loader.reset()
	a.bad = false
}

func (a *merging) update(in *folding) {
	states := in.more[0]
	nulls := len(states.Nulls) > 0 && states.Nulls.Any()
	for _, r := range in.rows {
		if nulls && states.Nulls.Get(int(r)) {
			continue
		}
		if !a.load(in.groups[r], []byte(states.Values[states.Code[r]])) {
			a.bad = true
		}
	}
}

func (a *merging) output(groups []uint32, out *batch.Column, at instant) error {
	if a.bad {
		name := strings.ToUpper(strings.TrimSuffix(a.f.Fn, plan.MergeSuffix))
		return plan.Errorf(-1, -1, "%s_MERGE was given what is no state", name).WithHint("%s_STATE(x) makes one", name)
	}
	return a.loader.output(groups, out, at)
}

// bytes implements valueHolder.
func (a *merging) bytes() int64 {
	if v, ok := a.loader.(valueHolder); ok {
		return v.bytes()
	}
	return 0
}

// appendStates makes out the states of groups; that of nothing is NULL.
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

// varianceIntState is the words of plan.StateFields, as unsigned varints.
type varianceIntState struct{ varianceInt }

func (a *varianceIntState) output(groups []uint32, out *batch.Column, _ instant) error {
	return appendStates(groups, out, func(g uint32, to []byte) []byte {
		s := &a.state[g]
		if s.n == 0 {
			return to
		}
		for _, w := range s.words() {
			to = binary.AppendUvarint(to, uint64(w))
		}
		return to
	})
}

func (a *varianceInt) load(group uint32, state []byte) bool {
	var w [6]int64
	for i := range w {
		v, n := binary.Uvarint(state)
		if n <= 0 {
			return false
		}
		w[i], state = int64(v), state[n:]
	}
	if len(state) > 0 || w[2] <= 0 {
		return false
	}
	a.state[group].addWords(w)
	return true
}

// varianceFloatState is the number of values, and their exact sums as a wideDouble.
type varianceFloatState struct{ varianceFloat }

func (a *varianceFloatState) output(groups []uint32, out *batch.Column, _ instant) error {
	return appendStates(groups, out, func(g uint32, to []byte) []byte {
		s := &a.state[g]
		if s.n == 0 {
			return to
		}
		to = binary.AppendUvarint(to, uint64(s.n))
		to = binary.AppendUvarint(to, uint64(len(s.sum)+len(s.sq)))
		for _, w := range append(s.sum[:], s.sq[:]...) {
			to = binary.LittleEndian.AppendUint64(to, w)
		}
		if wide := a.wide[g]; wide != nil {
			to = wide.encode(to)
		}
		return to
	})
}

func (a *varianceFloat) load(group uint32, state []byte) bool {
	count, n := binary.Uvarint(state)
	if n <= 0 || count == 0 || count > 1<<62 {
		return false
	}
	state = state[n:]
	var s floatMoments
	if words, n := binary.Uvarint(state); n != 1 || words != uint64(len(s.sum)+len(s.sq)) || uint64(len(state)-n) < 8*words {
		return false
	}
	state = state[1:]
	for i := range s.sum {
		s.sum[i] = binary.LittleEndian.Uint64(state[8*i:])
	}
	for i := range s.sq {
		s.sq[i] = binary.LittleEndian.Uint64(state[8*(len(s.sum)+i):])
	}
	if state = state[8*(len(s.sum)+len(s.sq)):]; len(state) > 0 && !a.wide.merge(group, state) {
		return false
	}
	into := &a.state[group]
	into.n += int64(count)
	addMultiword(into.sum[:], s.sum[:])
	addMultiword(into.sq[:], s.sq[:])
	return true
}

// histogramState is the buckets and how many values each has (appendCounts).
type histogramState struct{ histogram }

func (a *histogramState) output(groups []uint32, out *batch.Column, _ instant) error {
	return appendStates(groups, out, func(g uint32, to []byte) []byte {
		a.sorted = a.of(g, a.sorted[:0])
		return appendCounts(to, a.sorted)
	})
}

func (a *histogram) load(group uint32, state []byte) bool {
	return len(state) > 0 && a.addEncoded(group, state, math.MinInt64, math.MaxInt64)
}

// appendCounts appends entries, which it sorts by their words as signed numbers: the
// distance of each from the one before (the first one's from 0) as a signed varint,
// and the count as an unsigned one.
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

// addEncoded adds what appendCounts gave to a group, of words from least to most. It
// reports false if it is something else.
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

// topKState is the values that are kept and their counts.
type topKState struct{ topK }

func (a *topKState) output(groups []uint32, out *batch.Column, _ instant) error {
	return appendStates(groups, out, a.save)
}
