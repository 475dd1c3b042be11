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

	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/server/grant"
	"endoscope/server/store"
	"endoscope/server/wire"
)

// keep stores a definition of the session so that it outlives the engine. An
// error becomes a notice: the definition exists all the same.
func (s *session) keep(kind, name, statement string, plans ...*plan.Query) error {
	if s.e.kept.Dir == "" {
		return nil
	}
	d := &store.Definition{Kind: kind, Name: name, Owner: s.may.Name(), Statement: statement, Created: time.Now().UTC()}
	s.mu.Lock()
	if use := useOf(s.target); use != "" && (kind == "trigger" || kind == "export") {
		d.Session = append(d.Session, use)
	}
	d.Session = append(d.Session, slices.Sorted(maps.Values(s.statements))...)
	s.mu.Unlock()
	seen := map[int]bool{}
	for _, p := range plans {
		for _, leaf := range plan.Leaves(p.Root) {
			if leaf.Target.Command {
				return fmt.Errorf("%s %s is about a program that this session has started, and does not outlive it", kind, name)
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

// useOf returns the statement that sets the session's target.
func useOf(t plan.Target) string {
	switch {
	case t.Command:
		return ""
	case len(t.PIDs) > 0:
		return fmt.Sprintf("USE PID %d", t.PIDs[0])
	case len(t.Processes) > 0:
		return "USE '" + strings.ReplaceAll(t.Processes[0], "'", "''") + "'"
	case len(t.Containers) > 0:
		return "USE CONTAINER '" + strings.ReplaceAll(t.Containers[0].Value, "'", "''") + "'"
	case len(t.Exes) > 0:
		return "USE '" + strings.ReplaceAll(t.Exes[0], "'", "''") + "'"
	}
	return ""
}

func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b))
}

// errEnded is the error of a definition that will never be restored.
var errEnded = errors.New("the observed process has ended")

// Unrestored is a definition that could not be restored.
type Unrestored struct {
	Kind, Name string // the name is qualified
	Err        error
	Gone       bool // restoring is not tried again
}

// Restore restores the stored streams, contexts, triggers and exports that do not exist yet. as
// returns the current grant of an owner; false if the owner has no access.
// Restore returns the definitions that could not be restored: they may be
// later, as when their program runs again.
func (e *Engine) Restore(ctx context.Context, as func(owner string) (*grant.Grant, bool)) []Unrestored {
	var left []Unrestored
	for again := true; again; { // a definition may need another one
		again, left = false, nil
		for _, d := range e.kept.Pending() {
			key := definitions.Qualify(d.Owner, d.Name)
			err := e.restore(ctx, &d, as)
			switch {
			case err == nil:
				e.kept.Restored(&d)
				again = true
			case errors.Is(err, errEnded):
				_, _ = e.kept.Drop(d.Kind, key)
				left = append(left, Unrestored{d.Kind, key, err, true})
			default:
				left = append(left, Unrestored{d.Kind, key, err, false})
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
	defer s.Close() // the definition outlives the session
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
