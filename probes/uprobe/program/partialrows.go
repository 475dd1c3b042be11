package program

import (
	"bytes"
	"math"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/codegen"
	"endoscope/probes/rows"
	"endoscope/probes/uprobe/calls"
)

// partialRows makes partial rows from states. It is not safe for concurrent use.
type partialRows struct {
	code *codegen.Aggregate
	pane int64 // first column of the rows
	// labels holds, for each key determined by the function, its codes by function.
	labels [][]uint32
	shares [][]calls.Share // by probed function; nil where no calls are inferred
	// series of a function and replicate of the rows, if the stage is estimated; nil: series 0.
	series    func(function int) int
	replicate int64
	rows      *rows.Writer[partialRow]
	full      []*batch.Batch
}

// partialRow is the state of a group, or of one bucket of a sketch.
type partialRow struct {
	pane       int64
	key, state []uint64 // state is nil for a bucket
	times      int64    // multiplier of the state
	sketch     int
	bucket     int64 // of a histogram
	series     int64 // of slices; with the function it is the place
	replicate  int64
	exposure   [plan.HiddenAggs]int64 // of a row without events
	low, high  int64                  // of quantiles: the smallest and the largest of the values
	count      int64
}

func NewPartialRows(p *plan.Partial, code *codegen.Aggregate, out types.Schema, wants []calls.Function, inferred []calls.Inferred) *partialRows {
	r := &partialRows{code: code, labels: make([][]uint32, len(code.Keys)), shares: calls.SharesOf(wants, inferred), replicate: plan.ExactReplicate}
	columns := []rows.Column[partialRow]{rows.Word(func(x *partialRow) *int64 { return &x.pane })}
	for i, k := range code.Keys {
		columns = append(columns, r.keyColumn(i, k, p.Keys[i].Type()))
	}
	if p.Estimated {
		columns = append(columns,
			rows.Int(func(x *partialRow) int64 { return int64(x.key[0]>>32) | x.series<<32 }),
			rows.Int(func(x *partialRow) int64 { return x.replicate }))
	}
	for i, a := range code.Aggs {
		fields, _ := plan.StateFields(&p.Aggs[i])
		for k := range fields {
			if a.Sketch >= 0 {
				columns = append(columns, sketchColumn(a.Sketch, fields[k].Name))
				continue
			}
			columns = append(columns, stateColumn(a.Words[k]))
		}
	}
	if p.Estimated {
		columns = append(columns, stateColumn(code.Events))
		for i := 1; i < plan.HiddenAggs; i++ {
			columns = append(columns, rows.Int(func(x *partialRow) int64 { return x.exposure[i] }))
		}
	}
	r.rows = rows.NewWriter(p.Out.Types(), columns, 0)
	r.rows.Push = func(b *batch.Batch) { r.full = append(r.full, b) }
	for i, k := range code.Keys {
		if k.Column < 0 {
			continue
		}
		label := func(l calls.Label) {
			name := l.Function
			switch calls.ColumnByName[out.Fields[k.Column].Name] {
			case calls.ColClass:
				name = l.Class
			case calls.ColModule:
				name = l.Module
			case calls.ColExe:
				name = l.Exe
			}
			r.labels[i] = append(r.labels[i], r.rows.Code(1+i, name))
		}
		for _, w := range wants {
			label(w.Label)
		}
		for _, f := range inferred {
			label(f.Label)
		}
	}
	return r
}

// seriesOf returns the series of the function in a key.
func (r *partialRows) seriesOf(key []uint64) int64 {
	if r.series == nil {
		return 0
	}
	return int64(r.series(int(key[0] >> 32)))
}

// keyColumn returns the column of key i.
func (r *partialRows) keyColumn(i int, k codegen.Key, t types.Type) rows.Column[partialRow] {
	switch {
	case k.Column >= 0:
		return rows.Other(types.PhysCode, true, func(c *batch.Column, _ int, x *partialRow) {
			c.Code = append(c.Code, r.labels[i][x.key[0]>>32])
		})
	case k.Values != nil:
		return rows.Other(t.Physical(), true, func(c *batch.Column, row int, x *partialRow) {
			c.Append(row, k.Values[x.key[k.Word]])
		})
	case k.Name:
		return rows.Other(types.PhysCode, false, func(c *batch.Column, _ int, x *partialRow) {
			c.Code = append(c.Code, c.Dict.CodeBytes(nameIn(x.key[k.Word:k.Word+2])))
		})
	}
	return rows.Int(func(x *partialRow) int64 { return int64(x.key[k.Word]) })
}

// stateColumn returns the column of a word of a group's state.
func stateColumn(word int) rows.Column[partialRow] {
	return rows.Int(func(x *partialRow) int64 {
		if x.state == nil {
			return 0
		}
		return int64(x.state[word]) * x.times
	})
}

// sketchColumn returns a column, by its name in plan.StateFields, of a sketch.
func sketchColumn(sketch int, name string) rows.Column[partialRow] {
	if name == plan.OpaqueState { // what the engine makes of samples
		return rows.BytesOr(func(*partialRow) ([]byte, bool) { return nil, false })
	}
	word := map[string]func(*partialRow) int64{
		"bucket":        func(x *partialRow) int64 { return x.bucket },
		"low":           func(x *partialRow) int64 { return x.low },
		"high":          func(x *partialRow) int64 { return x.high },
		plan.StateCount: func(x *partialRow) int64 { return x.count },
	}[name]
	return rows.Int(func(x *partialRow) int64 {
		if sketch != x.sketch {
			return 0
		}
		return word(x)
	})
}

// nameIn decodes a name that the kernel keeps in two words.
func nameIn(words []uint64) []byte {
	b := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), codegen.NameSize)
	if i := bytes.IndexByte(b, 0); i >= 0 {
		return b[:i]
	}
	return b
}

// noSketch is the index of no aggregate.
const noSketch = -1

// group adds a row for a group's state, and rows for the functions whose calls are
// inferred from it.
func (r *partialRows) group(key, state []uint64) {
	if state[r.code.Events] == 0 { // every event lacked room in some table
		return
	}
	row := partialRow{pane: r.pane, key: key, state: state, times: 1, sketch: noSketch, series: r.seriesOf(key), replicate: r.replicate}
	r.rows.Put(row)
	if r.shares == nil {
		return
	}
	own := key[0]
	for _, f := range r.shares[own>>32] { // these have counts only
		key[0] = uint64(f.Function)<<32 | own&math.MaxUint32
		row.times = int64(f.Times)
		r.rows.Put(row)
	}
	key[0] = own
}

// bucket adds a row for a bucket, which is the last word of the key: the number of its
// values and, if there are quantiles, two words for the largest and the smallest.
func (r *partialRows) bucket(key, value []uint64) {
	if value[0] == 0 {
		return
	}
	row := partialRow{pane: r.pane, key: key, count: int64(value[0]), series: r.seriesOf(key), replicate: r.replicate}
	row.sketch, row.bucket = codegen.DecodeBucket(key[len(key)-1])
	if len(value) > 1 {
		row.high, row.low = int64(value[1]^1<<63), int64(^value[2]^1<<63)
	}
	r.rows.Put(row)
}

// sample adds a row for a value: the sketch plus 1 with the function above it, the rest
// of the key, and the value.
func (r *partialRows) sample(words []uint64) {
	sketch := int(uint32(words[0])) - 1
	if sketch < 0 {
		return // its event was not folded in the end
	}
	last := len(words) - 1
	value := int64(words[last])
	r.rows.Put(partialRow{pane: r.pane, key: words[:last], sketch: sketch, low: value, high: value, count: 1, series: r.seriesOf(words), replicate: r.replicate})
}

// take returns the batches made since the last call.
func (r *partialRows) take() []*batch.Batch {
	r.rows.Flush()
	full := r.full
	r.full = nil
	return full
}
