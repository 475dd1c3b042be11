package agg

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"

	"endoscope/operators/agg/fold"
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
	fold.Accumulator
	// load adds a state to a group. It reports false if it is none.
	load(group uint32, state []byte) bool
}

// newState makes X_STATE.
func newState(f *plan.Agg, arg types.Type) (fold.Accumulator, error) {
	switch name := strings.TrimSuffix(f.Fn, plan.StateSuffix); name {
	case "stddev", "variance":
		if arg.Physical() == types.PhysFloat {
			return &varianceFloatState{}, nil
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
func newMerge(f *plan.Agg, arg types.Type) (fold.Accumulator, error) {
	var acc fold.Accumulator
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

func (a *merging) Reset() {
	a.loader.Reset()
	a.bad = false
}

func (a *merging) Update(in *fold.Input) {
	states := in.More[0]
	nulls := len(states.Nulls) > 0 && states.Nulls.Any()
	for _, r := range in.Rows {
		if nulls && states.Nulls.Get(int(r)) {
			continue
		}
		if !a.load(in.Groups[r], []byte(states.Values[states.Code[r]])) {
			a.bad = true
		}
	}
}

func (a *merging) Output(groups []uint32, out *batch.Column, at fold.Instant) error {
	if a.bad {
		name := strings.ToUpper(strings.TrimSuffix(a.f.Fn, plan.MergeSuffix))
		return plan.Errorf(-1, -1, "%s_MERGE was given what is no state", name).WithHint("%s_STATE(x) makes one", name)
	}
	return a.loader.Output(groups, out, at)
}

// Bytes implements valueHolder.
func (a *merging) Bytes() int64 {
	if v, ok := a.loader.(valueHolder); ok {
		return v.Bytes()
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

func (a *varianceIntState) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
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

// varianceFloatState is the number of values, their mean, and the sum of the squared
// differences to it.
type varianceFloatState struct{ varianceFloat }

func (a *varianceFloatState) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	return appendStates(groups, out, func(g uint32, to []byte) []byte {
		s := &a.state[g]
		if s.n == 0 {
			return to
		}
		to = binary.AppendUvarint(to, uint64(s.n))
		to = binary.LittleEndian.AppendUint64(to, math.Float64bits(s.mean))
		return binary.LittleEndian.AppendUint64(to, math.Float64bits(s.m2))
	})
}

// load merges by Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm for
// Computing Sample Variances (COMPSTAT 1982), equation 2.1.
func (a *varianceFloat) load(group uint32, state []byte) bool {
	count, n := binary.Uvarint(state)
	if n <= 0 || len(state) != n+16 || count == 0 || count > 1<<62 {
		return false
	}
	mean := math.Float64frombits(binary.LittleEndian.Uint64(state[n:]))
	m2 := math.Float64frombits(binary.LittleEndian.Uint64(state[n+8:]))
	s := &a.state[group]
	if s.n == 0 {
		*s = floatMoments{int64(count), mean, m2}
		return true
	}
	na, nb := float64(s.n), float64(count)
	d := mean - s.mean
	s.n += int64(count)
	s.m2 += m2 + d*d*(na/(na+nb))*nb
	s.mean += d * nb / (na + nb)
	return true
}

// histogramState is the buckets and how many values each has (appendCounts).
type histogramState struct{ histogram }

func (a *histogramState) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
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

// topKState is the values that are kept and their counts, in order of first
// appearance: a count as an unsigned varint, and the value; of a string its length
// stands before it.
type topKState struct{ topK }

func (a *topKState) Output(groups []uint32, out *batch.Column, _ fold.Instant) error {
	return appendStates(groups, out, func(g uint32, to []byte) []byte {
		a.sorted = a.kept(g)
		for _, p := range a.sorted {
			to = binary.AppendUvarint(to, uint64(p.count))
			if a.values.space == nil {
				to = binary.LittleEndian.AppendUint64(to, p.word)
				continue
			}
			text := a.values.value(p.word).S
			to = binary.AppendUvarint(to, uint64(len(text)))
			to = append(to, text...)
		}
		return to
	})
}

func (a *topK) load(group uint32, state []byte) bool {
	if a.values.typ.Physical() == types.PhysAny || len(state) == 0 {
		return false
	}
	for len(state) > 0 {
		// As many at once as a column has.
		c := batch.New([]types.Type{a.values.typ}).Cols[0]
		if c.Type.Physical() == types.PhysCode {
			c.Dict = batch.NewDict()
		}
		var rows []uint16
		var counts []int64
		for len(state) > 0 && len(rows) < batch.MaxRows {
			count, n := binary.Uvarint(state)
			if n <= 0 || count == 0 || count > 1<<62 {
				return false
			}
			state = state[n:]
			v, n := a.decode(state)
			if n <= 0 {
				return false
			}
			state = state[n:]
			c.Append(len(rows), v)
			rows, counts = append(rows, uint16(len(rows))), append(counts, int64(count))
		}
		words := make([]uint64, len(rows))
		a.number(&c, rows, words)
		for i, w := range words {
			a.count(group, w, counts[i])
		}
	}
	return true
}

// decode reads a value of a state, which n bytes are of; 0: there is none.
func (a *topK) decode(b []byte) (v types.Value, n int) {
	t := a.values.typ
	if t.Physical() == types.PhysCode {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return v, 0
		}
		return types.Value{Type: t, S: string(b[n : n+int(length)])}, n + int(length)
	}
	if len(b) < 8 {
		return v, 0
	}
	w := binary.LittleEndian.Uint64(b)
	if t.Physical() == types.PhysBool && w > 1 {
		return v, 0
	}
	return a.values.value(w), 8
}
