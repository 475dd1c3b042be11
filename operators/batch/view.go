package batch

import "sync"

// Views are recycled with the storage of their selection and column headers, so that a
// filter or a projection allocates nothing per batch.
var views = sync.Pool{New: func() any { return new(Batch) }}

type storage struct {
	sel  []uint16
	cols []Column
}

// View returns a batch that shares b's columns and has a copy of the selection sel. It
// holds a reference to b until it is released.
func (b *Batch) View(sel []uint16) *Batch {
	v := newView(b)
	v.Cols = b.Cols
	if sel != nil {
		if v.kept.sel == nil {
			v.kept.sel = make([]uint16, 0, MaxRows)
		}
		v.kept.sel = append(v.kept.sel[:0], sel...)
		v.Sel = v.kept.sel
	}
	return v
}

// Derive returns a batch with the rows and the selection of b and other columns: each of
// cols belongs to b or to own; cols itself is copied. It holds a reference to b until it is
// released, and then also releases the caller's reference to own, which may be nil.
func (b *Batch) Derive(own *Batch, cols []Column) *Batch {
	v := newView(b)
	v.own = own
	v.kept.cols = append(v.kept.cols[:0], cols...)
	v.Cols, v.Sel = v.kept.cols, b.Sel
	return v
}

func newView(b *Batch) *Batch {
	v := views.Get().(*Batch)
	v.parent, v.N = b.Retain(), b.N
	v.refs.Store(1)
	return v
}

// releaseView clears every reference before the storage is reused, so that an idle view
// keeps no columns alive.
func (b *Batch) releaseView() {
	parent, own := b.parent, b.own
	clear(b.kept.cols)
	b.Cols, b.Sel, b.parent, b.own = nil, nil, nil, nil
	views.Put(b)
	parent.Release()
	if own != nil {
		own.Release()
	}
}
