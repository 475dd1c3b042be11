package plan

import (
	"errors"
	"fmt"
)

// Error is a user error found while planning or acquiring. Offsets are bytes in the
// statement's text, as in parser.Span; Start < 0 means no position.
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

// Errorf returns an Error at a position.
func Errorf(start, stop int, format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...), Start: start, Stop: stop}
}

// WithHint returns e with a hint added.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// Unplaced returns a copy of an error without a position, with a text before its message. An
// error that is no [Error] is returned unchanged.
func Unplaced(before string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Start, out.Stop, out.Msg = -1, -1, before+out.Msg
	return &out
}

// Refusal returns an error of the definition of a context as one of its column: positions in
// the definition mean nothing in the statement.
func (c *Context) Refusal(err error) error {
	return &InColumn{Column: c.Name, Err: Unplaced("context "+c.Name+": ", err)}
}
