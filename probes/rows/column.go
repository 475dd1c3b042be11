package rows

import (
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Column says how one column is made from a record of type T.
type Column[T any] struct {
	op     op
	stores types.Physical
	at     uintptr // of a field: its offset in T, or in what Through leads to
	via    uintptr // of a field that Through leads to: the pointer's offset in T
	fixed  bool    // its strings are coded before there are rows: the dictionary stays

	int   func(*T) (int64, bool)
	real  func(*T) (float64, bool)
	bool  func(*T) (bool, bool)
	text  func(*T) (string, bool)
	bytes func(*T) ([]byte, bool)
	list  func(*T) any
	other func(*batch.Column, int, *T)
}

// op is how an appender makes a value. The first are loads of a field of the record,
// which cost no call.
type op uint8

const (
	opSkip        op = iota // no one reads the column: it holds anything
	opWord                  // a field of 64 bits
	opTime                  // the same, to which the writer's offset is added
	opHalf                  // a field of 32 bits without sign
	opQuarter               // a field of 16 bits without sign
	opWordThrough           // the same of what a field points to
	opTimeThrough
	opHalfThrough
	opQuarterThrough
	opBytes  // a field of text
	opStr    // a field of text, of which an empty one is NULL
	opCode   // a field that is a code of the column's dictionary
	opInt    // what functions return
	opTimeOf // a time, to which the writer's offset is added
	opReal
	opBool
	opText
	opBytesOf
	opList
	opOther
	opCell // a value of a row of values
)

// field returns the offset of a field in T.
func field[T, F any](f func(*T) *F) uintptr {
	var t T
	at := uintptr(unsafe.Pointer(f(&t))) - uintptr(unsafe.Pointer(&t))
	if at+unsafe.Sizeof(*f(&t)) > unsafe.Sizeof(t) {
		panic("rows: the field lies outside of the record")
	}
	return at
}

// Word is a field of 64 bits: a BIGINT, a DURATION, or a TIMESTAMP that needs no offset.
func Word[T any, F int64 | uint64](f func(*T) *F) Column[T] {
	return Column[T]{op: opWord, stores: types.PhysInt, at: field(f)}
}

// Time is a field with a time of the clock whose offset to the epoch the writer knows.
func Time[T any, F int64 | uint64](f func(*T) *F) Column[T] {
	return Column[T]{op: opTime, stores: types.PhysInt, at: field(f)}
}

// Half is a field of 32 bits without sign.
func Half[T any](f func(*T) *uint32) Column[T] {
	return Column[T]{op: opHalf, stores: types.PhysInt, at: field(f)}
}

// Quarter is a field of 16 bits without sign.
func Quarter[T any](f func(*T) *uint16) Column[T] {
	return Column[T]{op: opQuarter, stores: types.PhysInt, at: field(f)}
}

// Through is a column of the numeric field of what a field points to.
func Through[T, A any](pointer func(*T) **A, c Column[A]) Column[T] {
	if c.op < opWord || c.op > opQuarter {
		panic("rows: only numeric fields can be read through a pointer")
	}
	return Column[T]{op: c.op - opWord + opWordThrough, stores: c.stores, at: c.at, via: field(pointer)}
}

// Bytes is a field with a text.
func Bytes[T any](f func(*T) *[]byte) Column[T] {
	return Column[T]{op: opBytes, stores: types.PhysCode, at: field(f)}
}

// Str is a field with a text, where an empty one is NULL.
func Str[T any](f func(*T) *string) Column[T] {
	return Column[T]{op: opStr, stores: types.PhysCode, at: field(f)}
}

// Null is the code of NULL in a column of Code.
const Null = ^uint32(0)

// Code is a field with a code that Writer.Code has returned for the column, or Null.
// Its dictionary is never renewed.
func Code[T any](f func(*T) *uint32) Column[T] {
	return Column[T]{op: opCode, stores: types.PhysCode, at: field(f), fixed: true}
}

// TimeOf is Time for what a function returns.
func TimeOf[T any](f func(*T) int64) Column[T] {
	return Column[T]{op: opTimeOf, stores: types.PhysInt, int: func(t *T) (int64, bool) { return f(t), true }}
}

// Int is a number that a function computes.
func Int[T any](f func(*T) int64) Column[T] {
	return IntOr(func(t *T) (int64, bool) { return f(t), true })
}

// Count is Int where 0 is NULL.
func Count[T any](f func(*T) int64) Column[T] {
	return IntOr(func(t *T) (int64, bool) { n := f(t); return n, n != 0 })
}

// IntOr is a number, or NULL where the function returns false.
func IntOr[T any](f func(*T) (int64, bool)) Column[T] {
	return Column[T]{op: opInt, stores: types.PhysInt, int: f}
}

// RealOr is a floating-point number, or NULL where the function returns false.
func RealOr[T any](f func(*T) (float64, bool)) Column[T] {
	return Column[T]{op: opReal, stores: types.PhysFloat, real: f}
}

// Bool is a truth value.
func Bool[T any](f func(*T) bool) Column[T] {
	return BoolOr(func(t *T) (bool, bool) { return f(t), true })
}

// BoolOr is a truth value, or NULL where the function returns false.
func BoolOr[T any](f func(*T) (value, known bool)) Column[T] {
	return Column[T]{op: opBool, stores: types.PhysBool, bool: f}
}

// String is a text.
func String[T any](f func(*T) string) Column[T] {
	return TextOr(func(t *T) (string, bool) { return f(t), true })
}

// Text is String where an empty text is NULL.
func Text[T any](f func(*T) string) Column[T] {
	return TextOr(func(t *T) (string, bool) { s := f(t); return s, s != "" })
}

// TextOr is a text, or NULL where the function returns false.
func TextOr[T any](f func(*T) (string, bool)) Column[T] {
	return Column[T]{op: opText, stores: types.PhysCode, text: f}
}

// BytesOr is TextOr for bytes that the caller goes on using.
func BytesOr[T any](f func(*T) ([]byte, bool)) Column[T] {
	return Column[T]{op: opBytesOf, stores: types.PhysCode, bytes: f}
}

// List is a list, []types.Value, or NULL where the function returns nil. It is an any
// already, since making one allocates.
func List[T any](f func(*T) any) Column[T] {
	return Column[T]{op: opList, stores: types.PhysAny, list: f}
}

// Other is a column whose values the function appends itself, as a row whose number it
// is given. p is how they are stored. fixed says that the column's strings are coded
// before there are rows.
func Other[T any](p types.Physical, fixed bool, f func(c *batch.Column, row int, t *T)) Column[T] {
	return Column[T]{op: opOther, stores: p, fixed: fixed, other: f}
}

// Unread is a column that no one reads: it holds anything.
func Unread[T any](p types.Physical) Column[T] {
	return Column[T]{op: opSkip, stores: p, fixed: true}
}
