package answer

import (
	"errors"
	"fmt"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/server/grant"
)

// Forbidden returns a grant's refusal, with the position of a part of the
// statement.
func Forbidden(err error, at parser.Node, text string) error {
	var r *grant.Refusal
	if !errors.As(err, &r) {
		return err
	}
	if at == nil {
		return planner.Placed(plan.Errorf(-1, -1, "%s", r.Msg).WithHint("%s", r.Hint), text)
	}
	return Refuse(at, text, r.Hint, "%s", r.Msg)
}

// PlacedAt adds a position to an error that has none, and to a grant's refusal.
func PlacedAt(err error, start, stop int, text string) error {
	var r *grant.Refusal
	if errors.As(err, &r) {
		err = plan.Errorf(start, stop, "%s", r.Msg).WithHint("%s", r.Hint)
	}
	return planner.Placed(err, text)
}

// Refuse returns an error at a part of a statement.
func Refuse(at parser.Node, text, hint, format string, args ...any) error {
	return &parser.Error{Msg: fmt.Sprintf(format, args...), Hint: hint, Pos: at.Pos(), Src: text}
}

// Unsupported returns the error for a part of a statement that cannot be
// executed yet.
func Unsupported(at parser.Node, text, what string) error {
	return &parser.Error{Msg: what + " is not supported yet", Pos: at.Pos(), Src: text}
}

// WithPlace adds the position of the statement to an error that has none.
func WithPlace(err error, n parser.Node, src string) error {
	if e, ok := err.(*parser.Error); ok && e.Src == "" {
		e.Pos, e.Src = n.Pos(), src
	}
	return err
}
