package expr

import (
	"slices"
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// maxDict is the number of strings after which a node replaces its own dictionary. Earlier
// results keep the old one.
const maxDict = 64 << 10

// output is the column that a node computes, reused by every evaluation.
type output struct {
	col batch.Column
	buf []byte // scratch for text under construction
}

func newOutput(t types.Type) output { return output{col: batch.Column{Type: t}} }

// begin makes room for n physical rows and clears the NULLs. Other entries keep their old
// values: a step writes only the rows it was asked for.
func (o *output) begin(n int) {
	c := &o.col
	if c.Type.Physical() == types.PhysCode && (c.Dict == nil || c.Dict.Len() > maxDict) {
		c.Dict = newDict()
		clear(c.Code)
	}
	o.resize(n)
}

// newDict returns a dictionary in which code 0 is always valid, for NULL rows and, after a
// rotation, for unselected rows. Every code of a result is an index of its Values.
func newDict() *batch.Dict {
	d := batch.NewDict()
	d.Code("")
	return d
}

// resize is begin for an output whose dictionary is managed elsewhere.
func (o *output) resize(n int) {
	c := &o.col
	c.Nulls = c.Nulls[:0]
	switch c.Type.Physical() {
	case types.PhysBool:
		c.Bool = sized(c.Bool, n)
	case types.PhysInt:
		c.Int = sized(c.Int, n)
	case types.PhysFloat:
		c.Float = sized(c.Float, n)
	case types.PhysCode:
		c.Code = sized(c.Code, n)
	case types.PhysAny:
		c.Any = sized(c.Any, n)
	case types.PhysNone:
		o.allNull(n)
	}
}

func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n, max(n, batch.MaxRows))
	}
	return s[:n]
}

// end completes the column with the current snapshot of the dictionary.
func (o *output) end() *batch.Column {
	if o.col.Dict != nil {
		o.col.Values = o.col.Dict.Values()
	}
	return &o.col
}

// allNull marks rows 0..n-1 NULL.
func (o *output) allNull(n int) {
	for i := range n {
		o.col.Nulls.Set(i)
	}
}

// setNull makes row i NULL and sets its value to zero.
func (o *output) setNull(i int) {
	o.col.Nulls.Set(i)
	o.zero(i)
}

// clearNull undoes setNull.
func (o *output) clearNull(i int) {
	if w := i >> 6; w < len(o.col.Nulls) {
		o.col.Nulls[w] &^= 1 << (uint(i) & 63)
	}
}

func (o *output) zero(i int) {
	c := &o.col
	switch c.Type.Physical() {
	case types.PhysBool:
		c.Bool[i] = false
	case types.PhysInt:
		c.Int[i] = 0
	case types.PhysFloat:
		c.Float[i] = 0
	case types.PhysCode:
		c.Code[i] = 0
	case types.PhysAny:
		c.Any[i] = nil
	}
}

func (o *output) setText(i int, s string)  { o.col.Code[i] = o.col.Dict.Code(s) }
func (o *output) setBytes(i int, b []byte) { o.col.Code[i] = o.col.Dict.CodeBytes(b) }

// setValue stores a value of the column's type.
func (o *output) setValue(i int, v types.Value) {
	if v.IsNull {
		o.setNull(i)
		return
	}
	c := &o.col
	switch c.Type.Physical() {
	case types.PhysBool:
		c.Bool[i] = v.I != 0
	case types.PhysInt:
		c.Int[i] = v.I
	case types.PhysFloat:
		c.Float[i] = v.F
	case types.PhysCode:
		o.setText(i, v.S)
	case types.PhysAny:
		c.Any[i] = v.A
	}
}

// inheritNulls makes the rows NULL at which an argument is NULL, as all strict functions
// do.
func (o *output) inheritNulls(r rows, args ...*batch.Column) {
	for _, a := range args {
		if a != nil && a.Nulls.Any() {
			o.col.Nulls = union(o.col.Nulls, a.Nulls)
		}
	}
	if len(o.col.Nulls) == 0 {
		return
	}
	for k := range r.len() {
		if i := r.at(k); o.col.Nulls.Get(i) {
			o.zero(i)
		}
	}
}

// union adds the set b to a.
func union(a, b batch.Bitmap) batch.Bitmap {
	if len(a) < len(b) {
		n := len(a)
		a = slices.Grow(a, len(b)-n)[:len(b)]
		clear(a[n:])
	}
	for w, x := range b {
		a[w] |= x
	}
	return a
}

// scalar are the Go types of the column layouts that generic kernels work on.
type scalar interface {
	bool | int64 | uint64 | float64
}

// vec returns the slice of c that holds values of type T.
func vec[T scalar](c *batch.Column) []T {
	var p any
	switch any((*T)(nil)).(type) {
	case *bool:
		p = &c.Bool
	case *int64:
		p = &c.Int
	case *uint64: // as Column.Uints, without an allocation
		p = (*[]uint64)(unsafe.Pointer(&c.Int))
	case *float64:
		p = &c.Float
	}
	return *p.(*[]T)
}

// text returns the string at row i of a VARCHAR or BYTES column.
func text(c *batch.Column, i int) string { return c.Values[c.Code[i]] }
