package server

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/probes/entities"
	"endoscope/probes/process"
	"endoscope/probes/replay"
	"endoscope/server/answer"
	"endoscope/server/grant"
	"endoscope/server/introspect"
	"endoscope/server/query"
)

// This file enforces a session's grant on its plans (package grant). The
// kernel's programs check each event again (probes/bpf/visible.h).

// permitted copies the session's settings, and what it may observe, to every
// acquisition of a plan. It refuses a plan that the session has no permission
// for.
func (s *session) permitted(p *plan.Query, text string) (*plan.Query, error) {
	out := s.withSettings(p)
	if s.may == nil {
		return out, nil
	}
	var first error
	out.Root = plan.TransformNodes(out.Root, func(n plan.Node) plan.Node {
		if first != nil {
			return n
		}
		switch n := n.(type) {
		case *plan.Acquire:
			c := *n
			if err := s.permit(&c, out); err != nil {
				first = answer.PlacedAt(err, n.Start, n.Stop, text)
			}
			return &c
		case *plan.Insert:
			path, err := s.may.MayWrite(n.Path)
			if err != nil {
				first = answer.PlacedAt(err, -1, -1, text)
				return n
			}
			c := *n
			c.Path = path
			return &c
		}
		return n
	})
	return out, first
}

// permit restricts an acquisition to what the session may do. a is its own copy.
func (s *session) permit(a *plan.Acquire, p *plan.Query) error {
	v := s.may.Sees()
	a.Target.Viewer = v
	if limit := s.may.Uses().Limits().Events; limit > 0 && (a.Settings.MaxEventRate == 0 || a.Settings.MaxEventRate > limit) {
		a.Settings.MaxEventRate = limit
	}
	switch {
	case a.Stream == "file":
		path, err := s.may.MayRead(a.Args[0].V.S)
		if err != nil {
			return err
		}
		a.Args = slices.Clone(a.Args)
		a.Args[0].V = types.Str(path)
		return nil
	case a.Stream == catalog.TriggerStream, a.Stream == catalog.StandingStream:
		return nil // the planner resolves no other names than those in scope
	}
	if !s.e.attaches[a.Stream] {
		return nil
	}
	if err := s.may.MayTrace(a.Stream); err != nil {
		return err
	}
	t := a.Target
	if !v.Private() || !byFunctions(a.Stream) || !t.Grows() {
		return nil
	}
	// Each probe is restricted to a process, which must exist.
	running, err := process.Resolve(t)
	if err != nil {
		return err
	}
	a.Target = plan.Target{Viewer: v, Command: t.Command, Follow: t.Follow, Start: t.Start, Stop: t.Stop}
	for _, p := range running {
		a.Target.PIDs = append(a.Target.PIDs, p.PID)
	}
	p.Notices = append(p.Notices, fmt.Sprintf("%s: only the %s now are observed: for those that start later it takes the grant \"shared\"", t, processesRunning(len(running))))
	return nil
}

// byFunctions reports whether a stream is acquired by probes of functions.
func byFunctions(stream string) bool {
	c := catalog.Find(stream)
	return c != nil && c.Functions || stream == entities.EntityEvents || stream == entities.ActivityEvents
}

func processesRunning(n int) string {
	if n == 1 {
		return "one process running"
	}
	return fmt.Sprintf("%d processes running", n)
}

// filesOf returns describeFile for one statement, which reads a file once.
func (s *session) filesOf() func(path string) (types.Schema, error) {
	known := map[string]types.Schema{}
	return func(path string) (types.Schema, error) {
		if sch, ok := known[path]; ok {
			return sch, nil
		}
		sch, err := s.describeFile(path)
		if err == nil {
			known[path] = sch
		}
		return sch, err
	}
}

// describeFile returns the schema of a file, if the session may read it.
func (s *session) describeFile(path string) (types.Schema, error) {
	at, err := s.may.MayRead(path)
	if err != nil {
		var r *grant.Refusal
		if errors.As(err, &r) {
			err = plan.Errorf(-1, -1, "%s", r.Msg).WithHint("%s", r.Hint)
		}
		return types.Schema{}, err
	}
	return replay.Describe(at)
}

// prepare is Engine.prepare of a plan that is permitted.
func (s *session) prepare(ctx context.Context, text string, p *plan.Query) (*query.Query, error) {
	release, err := s.reserveSymbols(targetsOf(p)...)
	if err != nil {
		return nil, answer.PlacedAt(err, -1, -1, text)
	}
	defer release()
	q, err := s.e.prepare(ctx, text, p)
	if err == nil {
		q.Grant = s.may
		for _, f := range q.Feeds {
			f.Account = s.may.Uses()
		}
	}
	return q, err
}

// reserveSymbols charges what reading the symbols of the executables of targets allocates to
// the session's user until release is called.
func (s *session) reserveSymbols(targets ...plan.Target) (release func(), err error) {
	if s.may.Uses().Limits().Memory == 0 {
		return func() {}, nil
	}
	bytes := int64(0)
	for i, t := range targets {
		if !t.IsZero() && !slices.ContainsFunc(targets[:i], func(o plan.Target) bool { return o.String() == t.String() }) {
			bytes += introspect.Program{Target: t}.SymbolMemory()
		}
	}
	return s.may.Uses().Reserve(bytes, "reading the symbols of the target")
}

// targetsOf returns the targets whose functions a plan probes.
func targetsOf(p *plan.Query) (all []plan.Target) {
	plan.TransformNodes(p.Root, func(n plan.Node) plan.Node {
		if a, ok := n.(*plan.Acquire); ok && byFunctions(a.Stream) {
			all = append(all, a.Target)
		}
		return n
	})
	return all
}
