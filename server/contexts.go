package server

import (
	"context"
	"fmt"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// createContext runs CREATE CONTEXT. Meanwhile nobody else creates or drops it.
func (s *session) createContext(ctx context.Context, st *parser.CreateContext, text string) (wire.Result, error) {
	name := st.Name.Name
	key := s.scope.Resolve(name)
	release, err := s.e.triggers.Claim(ctx, "context "+key)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := planner.CheckContext(st, text, s.env()); err != nil {
		return nil, err
	}
	// Stored in canonical form, as streams are.
	again, err := parser.Parse(st.String())
	if err != nil {
		return nil, fmt.Errorf("the definition of %s cannot be parsed again: %w", name, err)
	}
	if !s.e.contexts.Put(again.(*parser.CreateContext), key, st.Replace) {
		return nil, answer.Refuse(st.Name, text, "CREATE OR REPLACE CONTEXT, or DROP CONTEXT "+name, "there is a context %s already", name)
	}
	r := answer.Messagef("context %s created", name)
	if err := s.keep("context", name, again.String()); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// dropContext runs DROP CONTEXT. Queries that tell the context go on.
func (s *session) dropContext(ctx context.Context, st *parser.Drop, text string) (wire.Result, error) {
	name, key := st.Name.Name, s.scope.Resolve(st.Name.Name)
	release, err := s.e.triggers.Claim(ctx, "context "+key)
	if err != nil {
		return nil, err
	}
	defer release()
	if !s.e.contexts.Drop(key) {
		hint := planner.DidYouMean(name, s.contextNames())
		if hint == "" {
			hint = "SHOW CONTEXTS lists them"
		}
		return nil, answer.Refuse(st.Name, text, hint, "there is no context %s", name)
	}
	r := answer.Messagef("context %s dropped", name)
	if _, err := s.e.kept.Drop("context", key); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// contextNames returns the contexts visible to the session, as its user writes them.
func (s *session) contextNames() []string { return s.scope.Visible(s.e.contexts.Names()) }

func (s *session) showContexts() *answer.Table {
	rel := answer.NewTable(answer.Text("context"), answer.Text("begins"), answer.Text("key"), answer.Text("ends"), answer.Text("owner"))
	for _, qualified := range s.e.contexts.Names() {
		c := s.e.contexts.Get(qualified)
		if c == nil || !s.scope.Has(qualified) {
			continue // dropped meanwhile
		}
		owner, name := definitions.Split(qualified)
		ends := "with the call"
		if c.End != nil {
			ends = c.End.String()
		}
		rel.Add(types.Str(name), types.Str(c.Begin.String()), types.Str(c.Key.String()), types.Str(ends), types.Str(owner))
	}
	return rel
}
