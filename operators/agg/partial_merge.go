package agg

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"endoscope/operators/batch"
	"endoscope/operators/rowstore"
	"endoscope/planner/plan"
	"endoscope/planner/types"
)

// MergePartials makes partial rows of the first stage p fewer: those that are
// states of one group become one row, which says the same. Rows of different
// panes are of different groups; without panes a row gets the earliest time. It
// releases the batches and returns new ones.
func MergePartials(p *plan.Partial, batches []*batch.Batch) []*batch.Batch {
	m := partialMerge{p: p, at: map[string]int{}}
	for i := range p.Aggs {
		fields, _ := plan.StateFields(&p.Aggs[i])
		m.widths = append(m.widths, len(fields))
	}
	for _, b := range batches {
		for i := range b.Len() {
			m.add(b, b.Row(i))
		}
		b.Release()
	}
	return m.batches()
}

type partialMerge struct {
	p      *plan.Partial
	widths []int          // by aggregate: columns of its state
	at     map[string]int // of rows, by what they are a state of
	rows   []partialRow
	key    []byte
}

type partialRow struct {
	pane  int64
	keys  []types.Value
	state []int64
}

func (m *partialMerge) add(b *batch.Batch, row int) {
	pane := b.Cols[0].Int[row]
	first := 1 + len(m.p.Keys)
	m.key = m.key[:0]
	if m.p.Pane > 0 {
		m.key = binary.LittleEndian.AppendUint64(m.key, uint64(pane))
	}
	for i := range m.p.Keys {
		m.key = appendValue(m.key, b.Cols[1+i].Value(row))
	}
	state := b.Cols[first:]
	for i, w := range m.widths {
		if stateMerges[plan.StateOf(m.p.Aggs[i].Fn)] == nil { // bucket, n: of one bucket each
			if state[1].Int[row] != 0 {
				m.key = binary.LittleEndian.AppendUint64(append(m.key, byte(i)), uint64(state[0].Int[row]))
			}
		}
		state = state[w:]
	}
	state = b.Cols[first:]
	at, have := m.at[string(m.key)]
	if !have {
		r := partialRow{pane: pane, state: make([]int64, len(state))}
		for i := range m.p.Keys {
			r.keys = append(r.keys, b.Cols[1+i].Value(row))
		}
		for i := range state {
			r.state[i] = state[i].Int[row]
		}
		m.at[string(m.key)] = len(m.rows)
		m.rows = append(m.rows, r)
		return
	}
	r := &m.rows[at]
	r.pane = min(r.pane, pane)
	into, from := r.state, make([]int64, 0, 8)
	for i, w := range m.widths {
		from = from[:0]
		for k := range w {
			from = append(from, state[k].Int[row])
		}
		if merge := stateMerges[plan.StateOf(m.p.Aggs[i].Fn)]; merge != nil {
			merge(into[:w], from)
		} else {
			into[1] += from[1]
		}
		into, state = into[w:], state[w:]
	}
}

// appendValue appends a key that is equal for equal values of one column only.
func appendValue(b []byte, v types.Value) []byte {
	if v.IsNull {
		return append(b, 0)
	}
	b = binary.LittleEndian.AppendUint64(append(b, 1), uint64(v.I))
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.F))
	text := v.S
	if v.A != nil {
		text = rowstore.AnyText(v.A)
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(len(text)))
	return append(b, text...)
}

// stateMerges merge a state into another one of the same function
// (plan.StateFields); those that are missing count values by bucket.
var stateMerges = map[string]func(into, from []int64){
	"count": func(into, from []int64) { into[0] += from[0] },
	"rate":  func(into, from []int64) { into[0] += from[0] },
	"sum":   mergeSum, "avg": mergeSum,
	"min":    mergeBetter(1, func(a, b int64) bool { return a < b }),
	"max":    mergeBetter(1, func(a, b int64) bool { return a > b }),
	"first":  mergeBetter(2, func(a, b int64) bool { return a < b }),
	"last":   mergeBetter(2, func(a, b int64) bool { return a >= b }),
	"stddev": mergeMoments, "variance": mergeMoments,
}

// mergeBetter keeps of two states the one whose first word is better, and adds the
// numbers of their values, which are word n.
func mergeBetter(n int, better func(a, b int64) bool) func(into, from []int64) {
	return func(into, from []int64) {
		if from[n] == 0 {
			return
		}
		values := into[n] + from[n]
		if into[n] == 0 || better(from[0], into[0]) {
			copy(into, from)
		}
		into[n] = values
	}
}

// mergeSum adds lo, hi and n.
func mergeSum(into, from []int64) {
	if from[2] == 0 {
		return
	}
	if into[2] == 0 {
		copy(into, from)
		return
	}
	addWords(into[:2], from)
	into[2] += from[2]
}

// mergeMoments adds lo, hi and n, and then the squares.
func mergeMoments(into, from []int64) {
	if from[2] == 0 {
		return
	}
	if into[2] == 0 {
		copy(into, from)
		return
	}
	mergeSum(into, from)
	addWords(into[3:6], from[3:])
}

// addWords adds numbers of several words, the least significant first.
func addWords(into, from []int64) {
	carry := uint64(0)
	for i := range into {
		var sum uint64
		sum, carry = bits.Add64(uint64(into[i]), uint64(from[i]), carry)
		into[i] = int64(sum)
	}
}

func (m *partialMerge) batches() (out []*batch.Batch) {
	schema := m.p.Out.Types()
	for rows := range slices.Chunk(m.rows, batch.MaxRows) {
		b := batch.New(schema)
		for _, r := range rows {
			b.Cols[0].Append(b.N, types.Time(r.pane))
			for i, v := range r.keys {
				b.Cols[1+i].Append(b.N, v)
			}
			for i, v := range r.state {
				b.Cols[1+len(r.keys)+i].Append(b.N, types.Int(v))
			}
			b.N++
		}
		out = append(out, b)
	}
	return out
}

// PartialEvents is how many events partial rows of the first stage p stand for:
// at least, where no COUNT(*) says it.
func PartialEvents(p *plan.Partial, b *batch.Batch) uint64 {
	var m partials
	m.layout(p)
	return m.events(b, batch.RowsOf(b))
}
