package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Host is one of the engines.
type Host struct {
	Name   string
	Engine wire.Engine
}

// connecting is the time limit for connecting to a host.
const connecting = 5 * time.Second

// Engine combines several hosts into one engine.
type Engine struct{ hosts []Host }

// New returns an engine that combines several hosts. Their names must differ.
func New(hosts []Host) *Engine { return &Engine{hosts} }

// Close implements wire.Engine.
func (e *Engine) Close() error {
	var errs []error
	for _, h := range e.hosts {
		errs = append(errs, h.Engine.Close())
	}
	return errors.Join(errs...)
}

// member is a host in a session.
type member struct {
	name    string
	session wire.Session // nil: it could not be reached
	why     error        // why it has no session
	silent  atomic.Bool  // it did not answer last time
	clock   clocked      // nil: it has this machine's clock
	shard   []string     // the hosts of a shard, which reducers merge; nil: it is a host
}

// clocked is a host that measures how far its clock is ahead of this machine's.
type clocked interface {
	Clock(context.Context) (ahead, uncertain time.Duration, err error)
}

// session has a session at every host that could be reached.
type session struct {
	members []*member
	clocks  clocks
	limits  limits
	// published is the statement that the members execute, if they are of a bus.
	published Published
	reduces   bool // the states of hosts are merged into states (Reduce)
}

// limits are how a session treats hosts that do not do what the others do.
type limits struct {
	answering time.Duration // to accept a statement after another host has
	patience  time.Duration // how long a host may send nothing before the others do not wait for it
	// declines: a host that refuses a statement which others accept is left out. Otherwise
	// the statement is refused.
	declines bool
}

// few are the limits for hosts that the user has named.
var few = limits{answering: answering, patience: patience}

// NewSession opens a session at every host. It fails if no host can be reached, or
// if one refuses.
func (e *Engine) NewSession(ctx context.Context, o wire.Options) (wire.Session, error) {
	if len(o.Command) > 0 {
		return nil, &parser.Error{Msg: "a program cannot be started for several engines", Pos: parser.Span{Start: -1}}
	}
	s := &session{members: make([]*member, len(e.hosts)), limits: few}
	var all sync.WaitGroup
	for i, h := range e.hosts {
		m := &member{name: h.Name}
		s.members[i] = m
		all.Go(func() {
			with := o
			if o.Notify != nil {
				with.Notify = func(text string) { o.Notify(h.Name + ": " + text) }
			}
			with.Live = 0     // a preview of one host's part is useless
			with.Marks = true // a host without rows sends watermarks instead
			ctx, cancel := context.WithTimeout(ctx, connecting)
			defer cancel()
			if m.session, m.why = h.Engine.NewSession(ctx, with); m.why != nil {
				m.session = nil
			}
			m.clock, _ = m.session.(clocked)
		})
	}
	all.Wait()
	var refused error
	for _, m := range s.members {
		var mistake *parser.Error
		if errors.As(m.why, &mistake) {
			refused = placed(m.name, m.why)
		}
	}
	if refused == nil {
		refused = s.same()
	}
	if len(s.live()) == 0 && refused == nil {
		refused = fmt.Errorf("none of %d hosts can be reached: %w", len(s.members), s.members[0].why)
	}
	if refused != nil {
		_ = s.Close()
		return nil, refused
	}
	s.clocks.measure(ctx, s.live())
	return s, nil
}

// same refuses two hosts that are the same engine: its rows would count twice.
func (s *session) same() error {
	names := map[string]string{}
	for _, m := range s.live() {
		known, ok := m.session.(wire.Identified)
		if !ok || known.Engine() == "" {
			continue
		}
		if other := names[known.Engine()]; other != "" {
			return &parser.Error{Msg: fmt.Sprintf("%s and %s are the same engine, whose rows would count twice", other, m.name), Pos: parser.Span{Start: -1}}
		}
		names[known.Engine()] = m.name
	}
	return nil
}

// placed adds the name of the host to an error.
func placed(host string, err error) error {
	var mistake *parser.Error
	if errors.As(err, &mistake) {
		c := *mistake
		c.Msg = host + ": " + c.Msg
		return &c
	}
	return fmt.Errorf("%s: %w", host, err)
}

// live returns the hosts that are connected.
func (s *session) live() []*member {
	var out []*member
	for _, m := range s.members {
		if m.session != nil {
			out = append(out, m)
		}
	}
	return out
}

// Close implements wire.Session.
func (s *session) Close() error {
	var all sync.WaitGroup
	errs := make([]error, len(s.members))
	for i, m := range s.members {
		if m.session != nil {
			all.Go(func() { errs[i] = m.session.Close() })
		}
	}
	all.Wait()
	return errors.Join(errs...)
}

// Execute implements wire.Session. Hosts receive the unchanged text of the
// statement.
func (s *session) Execute(ctx context.Context, text string, args ...types.Value) (wire.Result, error) {
	stmt, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	_, query := stmt.(*parser.Query)
	return s.execute(ctx, stmt, func(ctx context.Context, m *member) (wire.Result, error) {
		if !query {
			return m.session.Execute(ctx, text, args...)
		}
		of, ok := m.session.(wire.Sharer)
		if !ok {
			return nil, errNoShare
		}
		return of.ExecuteShare(ctx, m.name, text, args...)
	})
}

// execute executes a statement at every host and combines the results.
func (s *session) execute(ctx context.Context, stmt parser.Statement, at func(context.Context, *member) (wire.Result, error)) (wire.Result, error) {
	parts, err := s.begin(ctx, at)
	if err != nil {
		return nil, err
	}
	of, err := agreed(parts, s.limits.declines)
	if _, query := stmt.(*parser.Query); err == nil && of == nil && query {
		err = errNoShare
	}
	if err != nil {
		for _, p := range parts {
			if p.res != nil {
				_ = p.res.Close()
			}
		}
		return nil, err
	}
	switch {
	case explains(stmt):
		return s.represent(ctx, parts)
	case of == nil:
		return s.gather(parts, 0, 0), nil
	}
	return s.result(parts, of)
}

// errNoShare refuses rows of hosts that did not send how these are combined into
// one result.
var errNoShare = errors.New("the hosts do not say how to combine their results: they may be of an older version")

// begin executes a statement at every host. The parts include lost hosts. If one
// host refuses the statement, it fails for all.
func (s *session) begin(ctx context.Context, execute func(context.Context, *member) (wire.Result, error)) ([]*part, error) {
	parts := s.executed(ctx, execute)
	var refused error
	begun := 0
	for _, p := range parts {
		switch {
		case p.err == nil:
			begun++
		case ctx.Err() != nil:
			refused = ctx.Err()
		case !gone(p.err) && refused == nil:
			refused = p.err
			if len(s.members) > 1 && !same(parts, p.err) {
				refused = placed(p.name, p.err)
			}
		}
	}
	if s.limits.declines && begun > 0 {
		refused = ctx.Err()
	}
	if begun == 0 && refused == nil {
		refused = fmt.Errorf("none of %d hosts answers: %w", len(parts), parts[0].err)
	}
	if refused == nil {
		return parts, nil
	}
	for _, p := range parts {
		if p.err == nil {
			_ = p.res.Close()
		}
	}
	return nil, refused
}

// answering is the time limit for a host to answer a question, and to accept a
// statement after another host has: programs differ, but not by that much.
const answering = 10 * time.Second

// accepting is the time limit for all hosts to accept a statement.
const accepting = 2 * time.Minute

// executed executes a statement at every host and returns each host's answer. A
// host counts as lost if it does not answer within a time limit after another one
// has; the limit is shorter for hosts that were already silent.
func (s *session) executed(ctx context.Context, execute func(context.Context, *member) (wire.Result, error)) []*part {
	type answer struct {
		i   int
		res wire.Result
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	parts, answers, open := make([]*part, len(s.members)), make(chan answer, len(s.members)), map[*member]bool{}
	marked := silent(s.reached())
	for i, m := range s.members {
		parts[i] = &part{name: m.name, member: m, err: m.why}
		if m.session == nil && s.published == nil {
			continue
		}
		parts[i].err = &silentError{m.name}
		open[m] = true
		go func() {
			res, err := execute(ctx, m)
			if ctx.Err() == nil {
				m.silent.Store(false)
			}
			answers <- answer{i, res, err}
		}()
	}
	late := time.NewTimer(accepting)
	defer late.Stop()
	for first := true; len(open) > 0; first = false {
		switch {
		case first:
		case within(open, marked):
			late.Reset(forStatements.silent)
		default:
			late.Reset(s.limits.answering)
		}
		select {
		case a := <-answers:
			parts[a.i].res, parts[a.i].err = a.res, a.err
			delete(open, s.members[a.i])
			continue
		case <-late.C:
		}
		break
	}
	if ctx.Err() == nil {
		for m := range open {
			m.silent.Store(true)
		}
	}
	// What still arrives is discarded. Results outlive the call's context.
	cancel()
	go func() {
		for range open {
			if a := <-answers; a.err == nil {
				_ = a.res.Close()
			}
		}
	}()
	return parts
}

// within reports whether all of some hosts are among others.
func within(some, others map[*member]bool) bool {
	for m := range some {
		if !others[m] {
			return false
		}
	}
	return true
}

// silentError reports that a host does not answer.
type silentError struct{ host string }

func (e *silentError) Error() string { return "it does not answer" }

// Lost reports true: an unresponsive host counts as lost.
func (e *silentError) Lost() bool { return true }

// same reports whether all hosts that answer refuse with the same error.
func same(parts []*part, err error) bool {
	return !slices.ContainsFunc(parts, func(p *part) bool {
		return p.err == nil || !gone(p.err) && p.err.Error() != err.Error()
	})
}

// isSilent reports whether err means that a host does not answer.
func isSilent(err error) bool {
	var e *silentError
	return errors.As(err, &e)
}

// gone reports whether err means that a host is not reachable.
func gone(err error) bool {
	var lost interface{ Lost() bool }
	return errors.As(err, &lost) && lost.Lost()
}

// Describe implements wire.Session. It returns the description of the first host
// that answers.
func (s *session) Describe(ctx context.Context, text string) (wire.Description, error) {
	return s.describe(ctx, s.live(), text)
}

func (s *session) describe(ctx context.Context, members []*member, text string) (wire.Description, error) {
	members = slices.Clone(members)
	marked := silent(members)
	slices.SortStableFunc(members, func(a, b *member) int { // those that may not answer, last
		switch {
		case marked[a] == marked[b]:
			return 0
		case marked[b]:
			return -1
		}
		return 1
	})
	for i := range members {
		d, errs := ask(ctx, members[i:i+1], forStatements, func(ctx context.Context, m *member) (wire.Description, error) {
			return m.session.Describe(ctx, text)
		})
		if errs[0] != nil && gone(errs[0]) {
			continue
		}
		return d[0], errs[0]
	}
	return wire.Description{}, errors.New("no host answers")
}

// Complete implements wire.Session. It returns the union of the hosts'
// completions.
func (s *session) Complete(ctx context.Context, kind, of, prefix string) []string {
	all, _ := ask(ctx, s.live(), forLookups, func(ctx context.Context, m *member) ([]string, error) {
		return m.session.Complete(ctx, kind, of, prefix), ctx.Err()
	})
	names := slices.Concat(all...)
	slices.Sort(names)
	return slices.Compact(names)
}

// Info implements wire.Session.
func (s *session) Info() []string {
	live := s.live()
	replies, errs := ask(context.Background(), live, forLookups, func(_ context.Context, m *member) ([]string, error) {
		return m.session.Info(), nil
	})
	answer, lines := 0, map[*member]string{}
	for i, m := range live {
		if lines[m] = strings.Join(replies[i], "; "); errs[i] != nil {
			lines[m] = errs[i].Error()
			continue
		}
		answer++
	}
	out := []string{fmt.Sprintf("engines: %d of %d", answer, len(s.members))}
	for _, m := range s.members {
		if m.session == nil {
			lines[m] = m.why.Error()
		}
		out = append(out, m.name+": "+lines[m])
	}
	return out
}

// Triggered implements wire.Session: the rows of all hosts.
func (s *session) Triggered(follow bool) wire.Result {
	var parts []*part
	for _, m := range s.live() {
		parts = append(parts, &part{name: m.name, member: m, res: m.session.Triggered(follow)})
	}
	return s.gather(parts, -1, 0)
}
