package batch

import (
	"slices"
	"unsafe"
)

// Sizes of what there is once in a batch, and once in a column of it.
const (
	batchBytes  = int64(unsafe.Sizeof(Batch{}))
	columnBytes = int64(unsafe.Sizeof(Column{}))
)

// Size is the number of bytes that a reference to b keeps allocated: the capacity of
// its columns, which in a pooled batch may be far more than its rows need, and the
// batch that b is a view of. Dictionaries and values in Any are not counted. It does not
// change while b does not.
func (b *Batch) Size() int64 {
	if b == nil {
		return 0
	}
	if b.parent != nil {
		return batchBytes + int64(cap(b.kept.cols))*columnBytes + int64(cap(b.kept.sel))*2 + b.parent.Size() + b.own.Size()
	}
	n := batchBytes + int64(cap(b.Sel))*2
	for i := range b.Cols {
		c := &b.Cols[i]
		n += columnBytes + int64(cap(c.Nulls))*8 + int64(cap(c.Bool)) + int64(cap(c.Int))*8 + int64(cap(c.Float))*8 + int64(cap(c.Code))*4 + int64(cap(c.Any))*16
	}
	return n
}

// Compact returns a batch of b's rows that keeps no more than these need, and releases
// b; or b itself if little would be gained.
func (b *Batch) Compact() *Batch {
	tight := batchBytes + int64(cap(b.Sel))*2 + int64(len(b.Cols))*(columnBytes+8*int64(b.N))
	if b.Size() < 2*tight {
		return b
	}
	cols := slices.Clone(b.Cols)
	for i := range cols {
		c := &cols[i]
		c.Nulls, c.Bool, c.Int = slices.Clone(c.Nulls), slices.Clone(c.Bool), slices.Clone(c.Int)
		c.Float, c.Code, c.Any = slices.Clone(c.Float), slices.Clone(c.Code), slices.Clone(c.Any)
	}
	out := Of(b.N, cols)
	out.Sel = slices.Clone(b.Sel)
	b.Release()
	return out
}
