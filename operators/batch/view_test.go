package batch

import (
	"slices"
	"testing"

	"endoscope/planner/types"
)

func ints(p *Pool, vs ...int64) *Batch {
	b := p.Get()
	for _, v := range vs {
		b.AppendRow(types.Int(v))
	}
	return b
}

// A view is a selection of its own: the caller may use its slice again at
// once, and an empty selection is no row, not every row.
func TestViewCopiesSelection(t *testing.T) {
	b := ints(NewPool([]types.Type{types.Bigint}), 10, 11, 12)
	sel := []uint16{0, 2}
	v := b.View(sel)
	sel[0] = 1
	if got := v.Sel; !slices.Equal(got, []uint16{0, 2}) {
		t.Errorf("Sel = %v", got)
	}
	if got := b.View([]uint16{}).Len(); got != 0 {
		t.Errorf("an empty selection has %d rows", got)
	}
	if got := b.View(nil).Len(); got != 3 {
		t.Errorf("no selection has %d rows", got)
	}
}

// The columns live until the last view over them is released.
func TestDeriveHoldsBothBatches(t *testing.T) {
	in, added := NewPool([]types.Type{types.Bigint}), NewPool([]types.Type{types.Bigint})
	b, own := ints(in, 1, 2), ints(added, 10, 20)
	d := b.View([]uint16{1}).Derive(own, []Column{own.Cols[0], b.Cols[0]})
	v := d.View(d.Sel)
	if got := []types.Value{v.Cols[0].Value(v.Row(0)), v.Cols[1].Value(v.Row(0))}; got[0].I != 20 || got[1].I != 2 {
		t.Errorf("row = %v", got)
	}
	d.Release()
	if b.refs.Load() == 0 || own.refs.Load() != 1 {
		t.Error("released while a view holds it")
	}
	v.Release()
	if own.refs.Load() != 0 {
		t.Error("not released with the last view")
	}
}

func TestViewAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool forgets under the race detector")
	}
	b := ints(NewPool([]types.Type{types.Bigint}), 1, 2, 3)
	sel := []uint16{0, 1}
	cols := []Column{b.Cols[0], b.Cols[0]}
	if n := testing.AllocsPerRun(1000, func() {
		v := b.View(sel)
		d := v.Derive(nil, cols)
		d.Release()
		v.Release()
	}); n >= 1 {
		t.Errorf("%v allocations per batch", n)
	}
}
