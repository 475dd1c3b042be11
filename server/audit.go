package server

import (
	"context"
	"fmt"
	"time"

	"endoscope/parser"
)

// recordStatement writes an audit record of a statement that was refused, or
// that changed definitions or settings of queries. stmt is nil if the text does
// not parse. The acquisitions of a statement are recorded with its query.
func (s *session) recordStatement(stmt parser.Statement, text string, err error) {
	if err != nil {
		s.may.Refused("statement", text, "error", err.Error())
		return
	}
	if c := parser.Classify(stmt); c.Changes {
		s.may.Record("executed", "kind", c.Kind, "statement", text)
	}
}

// awaitLog delays a statement of a user who writes too much to the audit log.
func (s *session) awaitLog(ctx context.Context) error {
	waited := s.may.Uses().AwaitLog(ctx.Done())
	if waited >= time.Second {
		s.notifyUser(fmt.Sprintf("a statement waited for %s: your statements fill the server's audit log faster than your limit", waited.Round(time.Millisecond)))
	}
	return ctx.Err()
}
