package server

import (
	"context"
	"fmt"
	"slices"

	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/types"
	"endoscope/server/answer"
	"endoscope/server/wire"
)

// This file implements what CREATE defines, and its visibility. A definition is
// visible to its owner and to users with rights over the owner. Its text may be
// confidential, and any use of it could reveal it: for all other users it does
// not exist, except that its name is taken. A user with rights over the owner
// may see and drop a definition, but not replace it: the owner is always the
// user who wrote it.

// createStream runs CREATE STREAM. Meanwhile nobody else creates or drops
// anything of that name.
func (s *session) createStream(ctx context.Context, st *parser.CreateStream, text string) (wire.Result, error) {
	name := st.Name.Name
	release, err := s.e.triggers.Claim(ctx, name)
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
	owner, waits := s.e.kept.Owner("stream", name)
	if defined, ok := s.views.Owner(name); ok {
		owner, waits = defined, true
	}
	if waits && st.Replace && s.may.Owns(owner) {
		if err := s.mayReplace("stream", owner, st.Name, text); err != nil {
			return nil, err
		}
	}
	switch {
	case waits && !s.may.Owns(owner), s.views.Taken(name) && s.views.Get(name) == nil:
		return nil, nameTaken(st.Name, text)
	case !s.views.Put(again.(*parser.CreateStream), s.may.Name(), st.Replace):
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
	name := st.Name.Name
	release, err := s.e.triggers.Claim(ctx, name)
	if err != nil {
		return nil, err
	}
	defer release()
	if !s.views.Drop(name) {
		return nil, answer.Refuse(st.Name, text, answer.Nearest(name, s.views.Names()), "there is no stream %s that CREATE STREAM made", name)
	}
	r := answer.Messagef("stream %s dropped", name)
	if _, err := s.e.kept.Drop("stream", name); err != nil {
		r.Notices = append(r.Notices, err.Error())
	}
	return r, nil
}

// triggerNames returns the triggers visible to the session, sorted.
func (s *session) triggerNames() []string {
	var names []string
	for _, t := range s.e.triggers.List() {
		if s.may.Owns(t.Owner) {
			names = append(names, t.Plan.Name)
		}
	}
	return names
}

// hidden reports whether a trigger is invisible to the session: it belongs to
// another user.
func (s *session) hidden(trigger string) bool {
	t := s.e.triggers.Get(trigger)
	return t != nil && !s.may.Owns(t.Owner)
}

// models returns the models visible to the session.
func (s *session) models() planner.Models { return visibleModels{s} }

// visibleModels implements planner.Models.
type visibleModels struct{ s *session }

func (m visibleModels) isVisible(name string) bool {
	if m.s.may.Rules() {
		return true
	}
	k, err := m.s.e.models.Summary(name)
	return err == nil && k != nil && m.s.may.Owns(k.Owner)
}

func (m visibleModels) Model(name string) (v types.Value, found bool, err error) {
	if !m.isVisible(name) {
		return v, false, nil
	}
	return m.s.e.models.Model(name)
}

func (m visibleModels) ModelNames() []string {
	return slices.DeleteFunc(m.s.e.models.ModelNames(), func(name string) bool { return !m.isVisible(name) })
}
