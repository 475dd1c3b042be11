package server

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"endoscope/parser"
	"endoscope/planner/catalog"
	"endoscope/planner/types"
	"endoscope/probes/process"
	"endoscope/server/answer"
	"endoscope/server/doctor"
	"endoscope/server/wire"
)

// showChecks examines the machine, the session's target if it has one, and whether each
// stream works here.
func (s *session) showChecks(ctx context.Context) (*answer.Table, error) {
	rel := answer.NewTable(answer.Text("kind"), answer.Text("name"), answer.Text("verdict"), answer.Text("found"), answer.Text("remedy"))
	checks := doctor.Machine()
	if target := s.program(); !target.Target.IsZero() {
		release, err := s.reserveSymbols(target.Target)
		if err != nil {
			return nil, err
		}
		defer release()
		running, err := process.Resolve(target.Target)
		if err != nil {
			return nil, err
		}
		if len(running) > 0 {
			checks = append(checks, doctor.Target(running[0], target.Module)...)
		}
	}
	checks = append(checks, s.tryStreams(ctx)...)
	for _, c := range checks {
		rel.Add(types.Str(c.Kind), types.Str(c.Name), types.Str(string(c.Verdict)), types.Str(c.Found), types.Str(c.Remedy))
	}
	return rel, nil
}

// tryStreams starts and ends a query of each stream. Its target is another process of the
// engine's own program that is held before its first instruction and then killed: it is
// there on every machine, and nothing else notices.
func (s *session) tryStreams(ctx context.Context) (checks []doctor.Check) {
	pid := os.Getpid()
	if held, err := process.Launch([]string{"/proc/self/exe"}, nil, nil, nil, os.Environ()); err == nil {
		defer held.End()
		pid = held.PID()
	}
	// The engine's rights are tried in any case; the user's were checked before.
	try, err := openSession(s.e, wire.Options{PID: pid}, nil)
	if err != nil {
		return []doctor.Check{{Kind: doctor.KindStream, Name: "all", Verdict: doctor.No, Found: err.Error()}}
	}
	try.leave = func() {}
	defer try.Close()
	streams := slices.DeleteFunc(slices.Clone(catalog.Streams), func(st *catalog.Stream) bool { return st.Later })
	checks = make([]doctor.Check, len(streams))
	var running sync.WaitGroup // much of it is waiting for the kernel
	for i, st := range streams {
		running.Go(func() {
			checks[i] = doctor.Check{Kind: doctor.KindStream, Name: st.Name, Verdict: doctor.OK, Found: st.Doc}
			if err := s.tryStream(ctx, try, st); err != nil {
				c := &checks[i]
				c.Verdict, c.Found = doctor.No, err.Error()
				if refused, ok := errors.AsType[*parser.Error](answer.Forbidden(err, nil, "")); ok {
					c.Found, c.Remedy = refused.Msg, refused.Hint
				}
			}
		})
	}
	running.Wait()
	return checks
}

// tries is the variable on which variable_value is tried: the number of tries.
var tries int64

// tryStream starts a query of a stream in the session try, and ends it at once.
func (s *session) tryStream(ctx context.Context, try *session, st *catalog.Stream) error {
	if s.e.attaches[st.Name] {
		if err := s.may.MayTrace(st.Name); err != nil {
			return err
		}
	}
	atomic.AddInt64(&tries, 1)
	from := st.Name
	if st.Kind == catalog.NonEnumerable {
		from = "SAMPLE(" + from + ", 1s)"
	}
	_, named := st.Column("var_name")
	_, called := st.Column("depth")
	switch {
	case named:
		from += " WHERE var_name = 'endoscope/server.tries'"
	case called:
		from += " WHERE function_name = 'main.main'"
	}
	r, err := try.Execute(ctx, "SELECT COUNT(*) FROM "+from)
	if err != nil {
		return err
	}
	return r.Close()
}
