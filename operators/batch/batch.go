package batch

import (
	"sync/atomic"

	"endoscope/planner/types"
)

// MaxRows is the most rows a batch holds. It keeps a handful of columns in the
// first- and second-level caches and lets selection vectors be 16-bit.
const MaxRows = 1024

// Batch is up to MaxRows rows in columns. See the package comment for who may
// change it when.
type Batch struct {
	Cols []Column
	N    int      // physical rows in every column
	Sel  []uint16 // the rows that count, ascending; nil: all N

	parent *Batch // the batch whose columns a view shares
	own    *Batch // what a derived batch's other columns come from
	kept   storage
	pool   *Pool
	refs   atomic.Int32
}

// New returns an empty batch with columns of the given types. Varchar columns
// get dictionaries of their own.
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

// Len is the number of rows that count.
func (b *Batch) Len() int {
	if b.Sel != nil {
		return len(b.Sel)
	}
	return b.N
}

// Row is the physical row of the i-th row that counts.
func (b *Batch) Row(i int) int {
	if b.Sel != nil {
		return int(b.Sel[i])
	}
	return i
}

// AppendRow adds a row of values, one for each column, for tests and for
// sources off the fast path.
func (b *Batch) AppendRow(vs ...types.Value) {
	for i := range b.Cols {
		b.Cols[i].Append(b.N, vs[i])
	}
	b.N++
}

// Retain keeps the batch beyond the call in which it was pushed.
func (b *Batch) Retain() *Batch {
	b.refs.Add(1)
	return b
}

// Release drops a reference. The last release returns it to its pool.
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

// Of returns a batch of n rows in columns that are there, for sources that have
// them. It keeps cols.
func Of(n int, cols []Column) *Batch {
	b := &Batch{Cols: cols, N: n}
	b.refs.Store(1)
	return b
}
