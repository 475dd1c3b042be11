package batch

import (
	"slices"
	"unsafe"
)

// Fixed sizes of a batch and of a column.
const (
	batchBytes  = int64(unsafe.Sizeof(Batch{}))
	columnBytes = int64(unsafe.Sizeof(Column{}))
)

// Size returns the bytes that a reference to b keeps allocated: the capacity of its
// columns, which in a pooled batch may far exceed the need of its rows, and the batch that
// b is a view of. Dictionaries and values in Any are not counted. It does not change while
// b does not.
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

// Compact returns a batch with only the memory that b's rows need, and releases b; or b
// itself if little would be gained.
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
