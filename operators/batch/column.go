package batch

import (
	"unsafe"

	"endoscope/planner/types"
)

// Column is a typed column. Exactly one of the data slices is used, by
// Type.Physical(); it has at least as many entries as its batch has rows.
// Entries at NULL positions are zero.
type Column struct {
	Type  types.Type
	Nulls Bitmap // bit i set: row i is NULL; empty: no NULLs

	Bool   []bool    // PhysBool
	Int    []int64   // PhysInt
	Float  []float64 // PhysFloat
	Code   []uint32  // PhysCode: indexes into Values
	Dict   *Dict     // PhysCode: the dictionary, as a cache key
	Values []string  // PhysCode: snapshot of the dictionary
	Any    []any     // PhysAny: []Value for List
}

// Value returns row i as a Value.
func (c *Column) Value(i int) types.Value {
	v := types.Value{Type: c.Type}
	if c.Nulls.Get(i) {
		v.IsNull = true
		return v
	}
	switch c.Type.Physical() {
	case types.PhysBool:
		if c.Bool[i] {
			v.I = 1
		}
	case types.PhysInt:
		v.I = c.Int[i]
	case types.PhysFloat:
		v.F = c.Float[i]
	case types.PhysCode:
		v.S = c.Values[c.Code[i]]
	case types.PhysAny:
		v.A = c.Any[i]
	default:
		v.IsNull = true
	}
	return v
}

// Uints returns Int as the unsigned numbers of a UBIGINT column.
func (c *Column) Uints() []uint64 { return *(*[]uint64)(unsafe.Pointer(&c.Int)) }

// Append adds v as the next row, for sources and operators off the fast path.
// v must have the column's type, or be NULL; n is the number of rows so far.
// A Varchar column must have its Dict.
func (c *Column) Append(n int, v types.Value) {
	if v.IsNull {
		c.Nulls.Set(n)
		v = types.Value{Type: c.Type}
		if c.Type.Physical() == types.PhysCode {
			c.Code = append(c.Code, c.nullCode())
			return
		}
	}
	switch c.Type.Physical() {
	case types.PhysBool:
		c.Bool = append(c.Bool, v.I != 0)
	case types.PhysInt:
		c.Int = append(c.Int, v.I)
	case types.PhysFloat:
		c.Float = append(c.Float, v.F)
	case types.PhysCode:
		c.Code = append(c.Code, c.Dict.Code(v.S))
		c.Values = c.Dict.Values()
	case types.PhysAny:
		c.Any = append(c.Any, v.A)
	}
}

// nullCode returns a valid code for NULL rows: kernels may read the value of a NULL row
// before they look at the bitmap.
func (c *Column) nullCode() uint32 {
	if c.Dict.Len() == 0 {
		c.Dict.Code("")
	}
	c.Values = c.Dict.Values()
	return 0
}

// Reset empties the column for reuse; capacity and dictionary stay.
func (c *Column) Reset() {
	c.Nulls = c.Nulls[:0]
	c.Bool, c.Int, c.Float, c.Code = c.Bool[:0], c.Int[:0], c.Float[:0], c.Code[:0]
	clear(c.Any)
	c.Any = c.Any[:0]
}

// Bitmap is a growing set of row numbers.
type Bitmap []uint64

// Get reports whether bit i is set.
func (b Bitmap) Get(i int) bool {
	w := i >> 6
	return w < len(b) && b[w]&(1<<(uint(i)&63)) != 0
}

// Set sets bit i.
func (b *Bitmap) Set(i int) {
	w := i >> 6
	for len(*b) <= w {
		*b = append(*b, 0)
	}
	(*b)[w] |= 1 << (uint(i) & 63)
}

// Any reports whether any bit is set.
func (b Bitmap) Any() bool {
	for _, w := range b {
		if w != 0 {
			return true
		}
	}
	return false
}
