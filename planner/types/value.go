package types

// Value is one value of any type: a literal, a cell of a result, a row of the naive oracle.
// It is for the edges; operators work on columns.
//
// Type determines the field: Boolean in I (0 or 1), Bigint, Timestamp and Duration in I,
// Ubigint in I as its 64 bits, Double in F, Varchar and Bytes in S, List in A as []Value,
// Encoding in A. If IsNull is set, the fields are ignored.
type Value struct {
	Type   Type
	IsNull bool
	I      int64
	F      float64
	S      string
	A      any
}

// NullOf returns the NULL of type t.
func NullOf(t Type) Value { return Value{Type: t, IsNull: true} }

// Bool, Int, Uint, Float, Str, Time and Dur return values of these types.
func Bool(b bool) Value {
	v := Value{Type: Boolean}
	if b {
		v.I = 1
	}
	return v
}
func Int(i int64) Value     { return Value{Type: Bigint, I: i} }
func Uint(u uint64) Value   { return Value{Type: Ubigint, I: int64(u)} }
func Float(f float64) Value { return Value{Type: Double, F: f} }
func Str(s string) Value    { return Value{Type: Varchar, S: s} }
func Time(ns int64) Value   { return Value{Type: Timestamp, I: ns} }
func Dur(ns int64) Value    { return Value{Type: Duration, I: ns} }
func ListOf(vs []Value) Value {
	return Value{Type: List, A: vs}
}
