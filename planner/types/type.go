package types

import (
	"math"
	"strconv"
)

// TimeFormat is the layout of a TIMESTAMP in CSV and JSON: RFC 3339 in UTC, always with nine
// digits of the second, so that texts sort as times.
const TimeFormat = "2006-01-02T15:04:05.000000000Z07:00"

// Type is the type of a column or a value (dialect.md, "Types").
type Type uint8

// The types of the language. Invalid is the zero value; Null is the type of a bare NULL
// literal, which is compatible with every type.
const (
	Invalid   Type = iota
	Null           // the literal NULL before it gets its context's type
	Boolean        // stored in Column.Bool
	Bigint         // 64-bit signed; Column.Int
	Double         // Column.Float
	Varchar        // Column.Code + Column.Dict
	Timestamp      // ns since the Unix epoch; Column.Int
	Duration       // ns; Column.Int
	Bytes          // raw bytes held in a dictionary like Varchar
	List           // Column.Any holds []Value
	Encoding       // Column.Any holds an encoder's result (fmt.Stringer)
	Ubigint        // 64-bit unsigned; Column.Int has its bits
)

var typeNames = [...]string{
	Invalid: "INVALID", Null: "NULL", Boolean: "BOOLEAN", Bigint: "BIGINT",
	Double: "DOUBLE", Varchar: "VARCHAR", Timestamp: "TIMESTAMP",
	Duration: "DURATION", Bytes: "BYTES", List: "LIST", Encoding: "ENCODING",
	Ubigint: "UBIGINT",
}

// String returns the type's name as the user writes it: BIGINT, VARCHAR, ...
func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return "INVALID"
}

// Physical is how a type's values are stored in a column.
type Physical uint8

// The physical layouts. Several types share one: a TIMESTAMP, a DURATION and a BIGINT are
// all 64-bit integers, and kernels are written once per layout. A UBIGINT has that layout,
// too, as its 64 bits: what orders, formats or converts integers asks Unsigned.
const (
	PhysNone  Physical = iota
	PhysBool           // Column.Bool
	PhysInt            // Column.Int
	PhysFloat          // Column.Float
	PhysCode           // Column.Code, with Column.Values
	PhysAny            // Column.Any
)

// Physical returns the layout of t's values.
func (t Type) Physical() Physical {
	switch t {
	case Boolean:
		return PhysBool
	case Bigint, Timestamp, Duration, Ubigint:
		return PhysInt
	case Double:
		return PhysFloat
	case Varchar, Bytes:
		return PhysCode
	case List, Encoding:
		return PhysAny
	}
	return PhysNone
}

// Numeric reports whether arithmetic is defined on t.
func (t Type) Numeric() bool {
	return t == Bigint || t == Ubigint || t == Double || t == Duration
}

// Unsigned reports whether the integers of t are unsigned.
func (t Type) Unsigned() bool { return t == Ubigint }

// Key returns the bits of an integer of t as a signed number that orders like the integer
// among those of t. It is its own inverse.
func (t Type) Key(bits int64) int64 {
	if t == Ubigint {
		return bits ^ math.MinInt64
	}
	return bits
}

// Float returns the DOUBLE nearest to an integer of t.
func (t Type) Float(bits int64) float64 {
	if t == Ubigint {
		return float64(uint64(bits))
	}
	return float64(bits)
}

// AppendInt appends an integer of t in decimal digits.
func (t Type) AppendInt(b []byte, bits int64) []byte {
	if t == Ubigint {
		return strconv.AppendUint(b, uint64(bits), 10)
	}
	return strconv.AppendInt(b, bits, 10)
}

// ParseType returns the type called name in a CAST (any case), and whether there is one.
// The usual synonyms (INT, TEXT, FLOAT, INTERVAL, ...) are accepted.
func ParseType(name string) (Type, bool) {
	switch upper(name) {
	case "BOOLEAN", "BOOL":
		return Boolean, true
	case "BIGINT", "INT", "INTEGER", "SMALLINT", "TINYINT", "INT8", "INT4", "INT64", "LONG":
		return Bigint, true
	case "UBIGINT", "UINT64":
		return Ubigint, true
	case "DOUBLE", "FLOAT", "REAL", "NUMERIC", "DECIMAL", "FLOAT8":
		return Double, true
	case "VARCHAR", "TEXT", "STRING", "CHAR":
		return Varchar, true
	case "TIMESTAMP", "TIMESTAMPTZ", "DATETIME":
		return Timestamp, true
	case "DURATION", "INTERVAL":
		return Duration, true
	case "BYTES", "BLOB", "BYTEA":
		return Bytes, true
	}
	return Invalid, false
}

func upper(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
