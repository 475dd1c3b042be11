package server

import (
	"context"
	"fmt"
	"slices"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// This file implements what CREATE STREAM defines, and the names of definitions. Each
// user has names of their own (package definitions). A user with rights over others
// names theirs owner.name, and may see and drop them. Nobody creates or replaces
// anything of another user: the owner is always the user who wrote it.

// createStream runs CREATE STREAM. Meanwhile nobody else creates or drops
// anything of that name.
func (s *session) createStream(ctx context.Context, st *parser.CreateStream, text string) (wire.Result, error) {
	name := st.Name.Name
	release, err := s.e.triggers.Claim(ctx, s.scope.Resolve(name))
	if err != nil {
		return nil, err
	}
	defer release()
	if err := planner.CheckView(st, text, s.env()); err != nil {
		return nil, err
	}
	// Stored in canonical form, so that positions in it refer to its printed
	// text.
	again, err := parser.Parse(st.String())
	if err != nil {
		return nil, fmt.Errorf("the definition of %s cannot be parsed again: %w", name, err)
	}
	if !s.e.views.Put(again.(*parser.CreateStream), s.scope.Resolve(name), st.Replace) {
		return nil, answer.Refuse(st.Name, text, "CREATE OR REPLACE STREAM, or DROP STREAM "+name, "there is a stream %s already", name)
	}
	r := answer.Messagef("stream %s created", name)
	if err := s.keep("stream", name, again.String()); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// dropStream runs DROP STREAM.
func (s *session) dropStream(ctx context.Context, st *parser.Drop, text string) (wire.Result, error) {
	key := s.scope.Resolve(st.Name.Name)
	release, err := s.e.triggers.Claim(ctx, key)
	if err != nil {
		return nil, err
	}
	defer release()
	if !s.e.views.Drop(key) {
		return nil, answer.Refuse(st.Name, text, planner.DidYouMean(st.Name.Name, s.scope.Visible(s.e.views.Names())), "there is no stream %s that CREATE STREAM made", st.Name.Name)
	}
	r := answer.Messagef("stream %s dropped", st.Name.Name)
	if _, err := s.e.kept.Drop("stream", key); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// triggerNames returns the triggers visible to the session, as its user writes them.
func (s *session) triggerNames() []string { return s.scope.Visible(s.e.triggers.Flows.Names()) }

// streamNames returns the visible streams that users have defined.
func (s *session) streamNames() []string {
	return slices.Concat(s.scope.Visible(s.e.views.Names()), s.triggerNames(), s.scope.Visible(s.e.options.Standing.Names()))
}
