package batch

import (
	"sync/atomic"

	"endoscope/planner/types"
)

// MaxRows is the largest number of rows in a batch. It keeps a few columns in the first-
// and second-level caches and lets selection vectors be 16-bit.
const MaxRows = 1024

// wide is the number of columns from which batches of sources have fewer rows, so that
// one has at most wide*MaxRows values.
const wide = 32

// RowsFor returns the largest number of rows in a source's batch with so many columns:
// what waits in queues is bounded by batches.
func RowsFor(columns int) int { return max(1, min(MaxRows, wide*MaxRows/max(columns, 1))) }

// Batch is up to MaxRows rows in columns. The package comment says who may change it and
// when.
type Batch struct {
	Cols []Column
	N    int      // physical rows in every column
	Sel  []uint16 // selected rows, ascending; nil: all N

	parent *Batch // the batch whose columns a view shares
	own    *Batch // owner of a derived batch's other columns
	kept   storage
	pool   *Pool
	refs   atomic.Int32
}

// New returns an empty batch with columns of the given types. Each Varchar column gets a
// new dictionary.
func New(s []types.Type) *Batch {
	b := newBatch(s)
	for i, t := range s {
		if t.Physical() == types.PhysCode {
			b.Cols[i].Dict = NewDict()
		}
	}
	b.refs.Store(1)
	return b
}

func newBatch(s []types.Type) *Batch {
	b := &Batch{Cols: make([]Column, len(s))}
	for i, t := range s {
		b.Cols[i].Type = t
	}
	return b
}

// Len returns the number of selected rows.
func (b *Batch) Len() int {
	if b.Sel != nil {
		return len(b.Sel)
	}
	return b.N
}

// Row returns the physical row of the i-th selected row.
func (b *Batch) Row(i int) int {
	if b.Sel != nil {
		return int(b.Sel[i])
	}
	return i
}

// AppendRow adds a row with one value per column, for tests and for sources off the fast
// path.
func (b *Batch) AppendRow(vs ...types.Value) {
	for i := range b.Cols {
		b.Cols[i].Append(b.N, vs[i])
	}
	b.N++
}

// Retain adds a reference, so that the batch stays valid after the call that pushed it.
func (b *Batch) Retain() *Batch {
	b.refs.Add(1)
	return b
}

// Release drops a reference. The last release returns the batch to its pool.
func (b *Batch) Release() {
	if b.refs.Add(-1) != 0 {
		return
	}
	if b.parent != nil {
		b.releaseView()
		return
	}
	if b.pool != nil {
		b.pool.put(b)
	}
}

// Of returns a batch of n rows over existing columns. It keeps cols.
func Of(n int, cols []Column) *Batch {
	b := &Batch{Cols: cols, N: n}
	b.refs.Store(1)
	return b
}
