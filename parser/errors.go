package parser

// Error is a mistake in a statement, told in the user's words. The planner and
// the engine use it too, so that a user sees one form of error from all of
// them.
type Error struct {
	Msg  string // one line, no final full stop
	Hint string // what to write instead; may be empty
	Pos  Span   // where in Src; Start < 0: nowhere in particular
	Src  string // the statement's text; may be empty
}

// Errorf-style construction is left to callers: &Error{Msg: ..., Pos: n.Pos()}.
func (e *Error) Error() string { return Format(e) }
