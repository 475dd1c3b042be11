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

// This file is about what CREATE defines, and who sees it: whoever made it, and
// those who rule over others. A definition's text may hold what nobody else must
// read, and what it is used for would tell it: for all others it does not exist,
// but for its name, which is taken. Who rules over others sees and drops what is
// theirs, but does not replace it: a definition is always that of whoever wrote it.

// createStream runs CREATE STREAM. While it does nobody else creates or drops
// something of that name.
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
	// Kept in canonical form, so that positions in it mean its printed text.
	again, err := parser.Parse(st.String())
	if err != nil {
		return nil, fmt.Errorf("the definition of %s does not read back: %w", name, err)
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
		return nil, answer.Refuse(st.Name, text, "choose another name", "the name %s is taken", name)
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

// triggerNames are the triggers that the session sees, sorted.
func (s *session) triggerNames() []string {
	var names []string
	for _, t := range s.e.triggers.List() {
		if s.may.Owns(t.Owner) {
			names = append(names, t.Plan.Name)
		}
	}
	return names
}

// hidden reports whether a trigger is another user's.
func (s *session) hidden(trigger string) bool {
	t := s.e.triggers.Get(trigger)
	return t != nil && !s.may.Owns(t.Owner)
}

// models are those that the session sees.
func (s *session) models() planner.Models { return seenModels{s} }

// seenModels implements planner.Models.
type seenModels struct{ s *session }

func (m seenModels) sees(name string) bool {
	if m.s.may.Rules() {
		return true
	}
	k, err := m.s.e.models.Summary(name)
	return err == nil && k != nil && m.s.may.Owns(k.Owner)
}

func (m seenModels) Model(name string) (v types.Value, found bool, err error) {
	if !m.sees(name) {
		return v, false, nil
	}
	return m.s.e.models.Model(name)
}

func (m seenModels) ModelNames() []string {
	return slices.DeleteFunc(m.s.e.models.ModelNames(), func(name string) bool { return !m.sees(name) })
}
