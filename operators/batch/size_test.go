package batch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"endoscope/planner/types"
)

// A batch of a pool keeps room for all rows that it ever had; what is compact keeps
// that of its own, and has the same rows.
func TestCompact(t *testing.T) {
	p := NewPool([]types.Type{types.Bigint, types.Varchar, types.Double, types.Boolean, types.List})
	fill := func(rows int) *Batch {
		b := p.Get()
		for i := range rows {
			row := []types.Value{types.Int(int64(i)), types.Str("x"), {Type: types.Double, F: 1.5}, {Type: types.Boolean, I: int64(i % 2)}, {Type: types.List, A: []types.Value{types.Int(1)}}}
			if i%3 == 0 {
				row[0] = types.Value{Type: types.Bigint, IsNull: true}
			}
			b.AppendRow(row...)
		}
		p.Seal(b)
		return b
	}
	full := fill(MaxRows)
	if full.Size() < MaxRows*(8+4+8+1+16) || full.Compact() != full {
		t.Errorf("%d bytes of a full batch", full.Size())
	}
	// As the pool would give it, which may forget batches.
	few := full
	few.N, few.Sel = 10, []uint16{0, 3, 4, 9}
	for i := range few.Cols {
		c := &few.Cols[i]
		switch c.Type.Physical() {
		case types.PhysBool:
			c.Bool = c.Bool[:10]
		case types.PhysInt:
			c.Int = c.Int[:10]
		case types.PhysFloat:
			c.Float = c.Float[:10]
		case types.PhysCode:
			c.Code = c.Code[:10]
		default:
			c.Any = c.Any[:10]
		}
	}
	view := few.Derive(nil, few.Cols[1:])
	if view.Size() <= few.Size() {
		t.Errorf("a view keeps %d bytes, and what it is of %d", view.Size(), few.Size())
	}
	rows := func(b *Batch) (out [][]types.Value) {
		for i := range b.Len() {
			var row []types.Value
			for c := range b.Cols {
				row = append(row, b.Cols[c].Value(b.Row(i)))
			}
			out = append(out, row)
		}
		return out
	}
	want := rows(view)
	small := view.Compact()
	if small == view || small.Size() > 4096 {
		t.Errorf("%d bytes of %d rows", small.Size(), small.N)
	}
	if diff := cmp.Diff(want, rows(small)); diff != "" || len(want) != 4 {
		t.Error(diff)
	}
	small.Release()
}
