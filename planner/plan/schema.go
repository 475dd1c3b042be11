package plan

import (
	"fmt"

	"endoscope/operators/batch"
)

// Field is one column of a node's output.
type Field struct {
	Name      string
	Qualifier string // alias or stream name it can be qualified with; "" if none
	Type      batch.Type
}

// Schema is a node's output.
type Schema struct {
	Fields []Field
	// Time is the index of the column that carries event time (TIMESTAMP, or
	// the BIGINT line number of a file without timestamps), or -1.
	Time int
}

// Types lists the column types, for package batch.
func (s Schema) Types() batch.Schema {
	ts := make(batch.Schema, len(s.Fields))
	for i, f := range s.Fields {
		ts[i] = f.Type
	}
	return ts
}

// Index is the position of the first column called name, or -1.
func (s Schema) Index(name string) int {
	for i, f := range s.Fields {
		if f.Name == name {
			return i
		}
	}
	return -1
}

// Error is a refusal found while planning or acquiring. Offsets are bytes in
// the statement's text, as in parser.Span; Start < 0 means no place.
type Error struct {
	Msg, Hint   string
	Start, Stop int
}

func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Msg + " (hint: " + e.Hint + ")"
	}
	return e.Msg
}

// InColumn is an error about a column of an acquisition.
type InColumn struct {
	Column string
	Err    error
}

func (e *InColumn) Error() string { return e.Err.Error() }
func (e *InColumn) Unwrap() error { return e.Err }

// Errorf makes an Error at a place.
func Errorf(start, stop int, format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...), Start: start, Stop: stop}
}

// WithHint returns e with a hint added.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}
