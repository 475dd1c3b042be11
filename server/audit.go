package server

import (
	"endoscope/parser"
)

// recordStatement writes an audit record of a statement that was refused, or
// that changed definitions or settings of queries. stmt is nil if the text does
// not parse. The acquisitions of a statement are recorded with its query.
func (s *session) recordStatement(stmt parser.Statement, text string, err error) {
	if err != nil {
		s.may.Record("refused", "statement", text, "error", err.Error())
		return
	}
	if c := parser.Classify(stmt); c.Changes {
		s.may.Record("executed", "kind", c.Kind, "statement", text)
	}
}
