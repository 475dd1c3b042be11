package rows

import (
	"unsafe"

	"endoscope/operators/batch"
	"endoscope/planner/types"
)

// Column defines how one column is computed from a record of type T.
type Column[T any] struct {
	op     op
	stores types.Physical
	at     uintptr // for a field: its offset in T, or in the target of Through
	via    uintptr // for Through: the pointer's offset in T
	fixed  bool    // its strings are coded before the first row: the dictionary stays

	int   func(*T) (int64, bool)
	real  func(*T) (float64, bool)
	bool  func(*T) (bool, bool)
	text  func(*T) (string, bool)
	bytes func(*T) ([]byte, bool)
	list  func(*T) any
	other func(*batch.Column, int, *T)
}

// op is how an appender computes a value. The first ones load a field of the
// record, which needs no call.
type op uint8

const (
	opSkip        op = iota // the column is not read: any value will do
	opWord                  // a 64-bit field
	opTime                  // the same, plus the writer's offset
	opHalf                  // an unsigned 32-bit field
	opQuarter               // an unsigned 16-bit field
	opWordThrough           // a 64-bit field of what a field points to
	opTimeThrough
	opHalfThrough
	opQuarterThrough
	opBytes  // a text field
	opStr    // a text field, NULL if empty
	opCode   // a field that is a code of the column's dictionary
	opInt    // the result of a function
	opTimeOf // a time, plus the writer's offset
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

// Word returns a column of a 64-bit field: a BIGINT, a DURATION, or a TIMESTAMP
// that needs no offset.
func Word[T any, F int64 | uint64](f func(*T) *F) Column[T] {
	return Column[T]{op: opWord, stores: types.PhysInt, at: field(f)}
}

// Time returns a column of a field with a time, to which the writer's offset to
// the epoch is added.
func Time[T any, F int64 | uint64](f func(*T) *F) Column[T] {
	return Column[T]{op: opTime, stores: types.PhysInt, at: field(f)}
}

// Half returns a column of an unsigned 32-bit field.
func Half[T any](f func(*T) *uint32) Column[T] {
	return Column[T]{op: opHalf, stores: types.PhysInt, at: field(f)}
}

// Quarter returns a column of an unsigned 16-bit field.
func Quarter[T any](f func(*T) *uint16) Column[T] {
	return Column[T]{op: opQuarter, stores: types.PhysInt, at: field(f)}
}

// Through returns a column of a numeric field of what a field points to.
func Through[T, A any](pointer func(*T) **A, c Column[A]) Column[T] {
	if c.op < opWord || c.op > opQuarter {
		panic("rows: only numeric fields can be read through a pointer")
	}
	return Column[T]{op: c.op - opWord + opWordThrough, stores: c.stores, at: c.at, via: field(pointer)}
}

// Bytes returns a column of a text field.
func Bytes[T any](f func(*T) *[]byte) Column[T] {
	return Column[T]{op: opBytes, stores: types.PhysCode, at: field(f)}
}

// Str returns a column of a text field; an empty text is NULL.
func Str[T any](f func(*T) *string) Column[T] {
	return Column[T]{op: opStr, stores: types.PhysCode, at: field(f)}
}

// Null is the code of NULL in a column of Code.
const Null = ^uint32(0)

// Code returns a column of a field with a code that Writer.Code has returned
// for the column, or Null. Its dictionary is never replaced.
func Code[T any](f func(*T) *uint32) Column[T] {
	return Column[T]{op: opCode, stores: types.PhysCode, at: field(f), fixed: true}
}

// TimeOf is Time for the result of a function.
func TimeOf[T any](f func(*T) int64) Column[T] {
	return Column[T]{op: opTimeOf, stores: types.PhysInt, int: func(t *T) (int64, bool) { return f(t), true }}
}

// Int returns a column of a number that a function computes.
func Int[T any](f func(*T) int64) Column[T] {
	return IntOr(func(t *T) (int64, bool) { return f(t), true })
}

// Count is Int; 0 is NULL.
func Count[T any](f func(*T) int64) Column[T] {
	return IntOr(func(t *T) (int64, bool) { n := f(t); return n, n != 0 })
}

// IntOr returns a column of a number; NULL if the function returns false.
func IntOr[T any](f func(*T) (int64, bool)) Column[T] {
	return Column[T]{op: opInt, stores: types.PhysInt, int: f}
}

// RealOr returns a column of a floating-point number; NULL if the function
// returns false.
func RealOr[T any](f func(*T) (float64, bool)) Column[T] {
	return Column[T]{op: opReal, stores: types.PhysFloat, real: f}
}

// Bool returns a column of a boolean.
func Bool[T any](f func(*T) bool) Column[T] {
	return BoolOr(func(t *T) (bool, bool) { return f(t), true })
}

// BoolOr returns a column of a boolean; NULL if the function returns false.
func BoolOr[T any](f func(*T) (value, known bool)) Column[T] {
	return Column[T]{op: opBool, stores: types.PhysBool, bool: f}
}

// String returns a column of a text.
func String[T any](f func(*T) string) Column[T] {
	return TextOr(func(t *T) (string, bool) { return f(t), true })
}

// Text is String; an empty text is NULL.
func Text[T any](f func(*T) string) Column[T] {
	return TextOr(func(t *T) (string, bool) { s := f(t); return s, s != "" })
}

// TextOr returns a column of a text; NULL if the function returns false.
func TextOr[T any](f func(*T) (string, bool)) Column[T] {
	return Column[T]{op: opText, stores: types.PhysCode, text: f}
}

// BytesOr is TextOr for bytes that the caller may reuse.
func BytesOr[T any](f func(*T) ([]byte, bool)) Column[T] {
	return Column[T]{op: opBytesOf, stores: types.PhysCode, bytes: f}
}

// List returns a column of a list, []types.Value; NULL if the function returns
// nil. The function returns an any, since converting to one allocates.
func List[T any](f func(*T) any) Column[T] {
	return Column[T]{op: opList, stores: types.PhysAny, list: f}
}

// Other returns a column whose values the function appends itself, at the given
// row. p is their physical type. fixed says that the column's strings are coded
// before the first row.
func Other[T any](p types.Physical, fixed bool, f func(c *batch.Column, row int, t *T)) Column[T] {
	return Column[T]{op: opOther, stores: p, fixed: fixed, other: f}
}

// Unread returns a column that is not read: it has arbitrary values.
func Unread[T any](p types.Physical) Column[T] {
	return Column[T]{op: opSkip, stores: p, fixed: true}
}
