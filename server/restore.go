package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/server/grant"
	"endoscope/server/store"
	"endoscope/server/wire"
)

// keep has a definition of the session outlive the engine. An error is a notice:
// the definition is there all the same.
func (s *session) keep(kind, name, statement string, plans ...*plan.Query) error {
	if s.e.kept.Dir == "" {
		return nil
	}
	d := &store.Definition{Kind: kind, Name: name, Owner: s.may.Name(), Statement: statement, Created: time.Now().UTC()}
	s.mu.Lock()
	if use := useOf(s.target); use != "" && kind == "trigger" {
		d.Session = append(d.Session, use)
	}
	d.Session = append(d.Session, slices.Sorted(maps.Values(s.statements))...)
	s.mu.Unlock()
	seen := map[int]bool{}
	for _, p := range plans {
		for _, leaf := range plan.Leaves(p.Root) {
			if leaf.Target.Command {
				return fmt.Errorf("trigger %s is about a program that this session has started, and does not outlive it", name)
			}
			for _, pid := range leaf.Target.PIDs {
				if ran, ok := process.Lookup(pid); ok && !seen[pid] {
					seen[pid] = true
					d.Processes, d.Boot = append(d.Processes, store.Process{PID: pid, Start: ran.StartTime}), bootID()
				}
			}
		}
	}
	return s.e.kept.Save(d)
}

// useOf is the statement that makes a target the session's.
func useOf(t plan.Target) string {
	switch {
	case t.Command:
		return ""
	case len(t.PIDs) > 0:
		return fmt.Sprintf("USE PID %d", t.PIDs[0])
	case len(t.Processes) > 0:
		return "USE '" + strings.ReplaceAll(t.Processes[0], "'", "''") + "'"
	case len(t.Exes) > 0:
		return "USE '" + strings.ReplaceAll(t.Exes[0], "'", "''") + "'"
	}
	return ""
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// errEnded is why a definition is not restored, ever.
var errEnded = errors.New("the process that it is about has ended")

// Unrestored is a definition that could not be made again.
type Unrestored struct {
	Kind, Name string
	Err        error
	Gone       bool // it is not tried again
}

// Restore makes the streams and triggers again that were kept, as far as they are
// not there yet. As is what their owner may do now; false if they have no access.
// It gives those that could not be made again: they may be later, as when their
// program runs again.
func (e *Engine) Restore(ctx context.Context, as func(owner string) (*grant.Grant, bool)) []Unrestored {
	var left []Unrestored
	for again := true; again; { // one may need another
		again, left = false, nil
		for _, d := range e.kept.Pending() {
			err := e.restore(ctx, &d, as)
			switch {
			case err == nil:
				e.kept.Restored(&d)
				again = true
			case errors.Is(err, errEnded):
				_, _ = e.kept.Drop(d.Kind, d.Name)
				left = append(left, Unrestored{d.Kind, d.Name, err, true})
			default:
				left = append(left, Unrestored{d.Kind, d.Name, err, false})
			}
		}
	}
	return left
}

func (e *Engine) restore(ctx context.Context, d *store.Definition, as func(string) (*grant.Grant, bool)) error {
	for _, p := range d.Processes {
		now, ok := process.Lookup(p.PID)
		if !ok || now.StartTime != p.Start || d.Boot != bootID() {
			return errEnded
		}
	}
	may, ok := as(d.Owner)
	if !ok {
		return fmt.Errorf("%s has no access", d.Owner)
	}
	s, err := newSession(ctx, e, wire.Options{}, may)
	if err != nil {
		return err
	}
	defer s.Close() // the trigger goes on without it
	for _, statement := range append(slices.Clone(d.Session), d.Statement) {
		r, err := s.Execute(ctx, statement)
		if err != nil {
			return err
		}
		if err := r.Close(); err != nil {
			return err
		}
	}
	return nil
}
