package server

import (
	"errors"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/server/query"
	"endoscope/server/wire"
)

// journaled runs a statement and records it in the engine's journal until its query has
// ended. A trigger is recorded until it ends (createTrigger).
func (s *session) journaled(text string, run func() (wire.Result, error)) (wire.Result, error) {
	if s.e.options.Journal == nil {
		return run()
	}
	done, err := s.beginJournal(text)
	if err != nil {
		return nil, err
	}
	r, err := run()
	if q := queryOf(r); q != nil && err == nil {
		go func() {
			<-q.Done
			done()
		}()
		return r, nil
	}
	done()
	return r, err
}

// beginJournal records a statement in the engine's journal until done is called.
func (s *session) beginJournal(text string) (done func(), err error) {
	if s.e.options.Journal == nil {
		return func() {}, nil
	}
	done, err = s.e.options.Journal.Begin(s.may.Name(), text)
	if e := (*plan.Error)(nil); errors.As(err, &e) {
		err = planner.Placed(plan.Errorf(0, len(text), "%s", e.Msg).WithHint("%s", e.Hint), text)
	}
	return done, err
}

// queryOf returns the query of a result; nil: it has none.
func queryOf(r wire.Result) *query.Query {
	switch r := r.(type) {
	case *query.Result:
		return r.Query
	case *query.Explained:
		return r.Result.Query
	case *modelResult:
		return r.Query
	}
	return nil
}
