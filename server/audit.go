package server

import (
	"endoscope/parser"
)

// recordStatement records a statement that was refused, or that changed what is defined
// or how queries run. stmt is nil if the text does not parse. What a statement acquires
// is recorded with its query.
func (s *session) recordStatement(stmt parser.Statement, text string, err error) {
	if err != nil {
		s.may.Record("refused", "statement", text, "error", err.Error())
		return
	}
	if c := parser.Classify(stmt); c.Changes {
		s.may.Record("executed", "kind", c.Kind, "statement", text)
	}
}
