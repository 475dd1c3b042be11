package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/probes/container"
	"endoscope/probes/process"
	"endoscope/server/answer"
	"endoscope/server/grant"
	"endoscope/server/introspect"
	"endoscope/server/query"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// session is a session of one user with the engine.
type session struct {
	e      *Engine
	may    *grant.Grant
	scope  definitions.Scope // of its user
	live   time.Duration
	unread int64 // of queries: wire.Options.Unread
	marks  bool  // and wire.Options.Marks
	labels map[string]string
	stands bool // wire.Options.Standing
	shares bool // wire.Options.Share

	mu         sync.Mutex
	target     plan.Target
	command    *process.Command // stopped until the first query is armed
	started    startedProgram   // that this session, or its client, started
	settings   map[string]types.Value
	statements map[string]string // by setting: the SET statement
	open       map[*query.Query]bool
	closed     bool // no query may begin any more
	quiet      query.Suspended

	inbox  *trigger.Inbox    // rows of its triggers
	leave  func()            // uncounts the session of its user
	notify func(text string) // notifies the user; nil: nobody listens
	armed  func()            // wire.Options.Armed
}

func newSession(_ context.Context, e *Engine, o wire.Options, may *grant.Grant) (*session, error) {
	leave, err := may.Uses().Enter()
	if err != nil {
		return nil, answer.Forbidden(err, nil, "")
	}
	s, err := openSession(e, o, may)
	if err != nil {
		leave()
		return nil, err
	}
	s.leave = leave
	if j := e.options.Journal; j != nil && s.notify != nil {
		if text := j.Greeting(); text != "" {
			s.notify(text)
		}
	}
	return s, nil
}

func openSession(e *Engine, o wire.Options, may *grant.Grant) (*session, error) {
	s := &session{e: e, may: may, scope: definitions.Scope{Owner: may.Name(), Sees: may.Owns}, live: o.Live, unread: o.Unread, marks: o.Marks, labels: o.Labels, stands: o.Standing, shares: o.Share, settings: map[string]types.Value{}, statements: map[string]string{}, open: map[*query.Query]bool{}, inbox: trigger.NewInbox(), notify: o.Notify, armed: o.Armed}
	if (len(o.Command) > 0 || o.Started) && !may.Sees().Private() {
		s.settings["follow"] = types.Str("children")
	}
	switch {
	case len(o.Command) > 0:
		if err := may.MayStart(); err != nil {
			return nil, answer.Forbidden(err, nil, "")
		}
		c, err := process.Launch(o.Command, os.Stdin, os.Stdout, os.Stderr, os.Environ())
		if err != nil {
			return nil, planner.Placed(err, "")
		}
		s.command = c
		s.started = startedProgram{pid: c.PID(), ended: c.Wait()}
		s.target = plan.Target{PIDs: []int{c.PID()}, Command: true}
		return s, nil
	case o.PID != 0:
		s.target = plan.Target{PIDs: []int{o.PID}}
	case o.Process != "":
		s.target = plan.Target{Processes: []string{o.Process}}
	case o.Exe != "":
		s.target = plan.Target{Exes: []string{o.Exe}}
	}
	s.target.Viewer = may.Sees()
	if !s.target.IsZero() {
		if _, err := process.Resolve(s.target); err != nil {
			return nil, planner.Placed(err, "")
		}
	}
	if o.Started {
		if ended, forget, err := process.Watch(o.PID); err == nil {
			s.started = startedProgram{o.PID, ended, forget}
		}
	}
	return s, nil
}

// startedProgram is a program that a session, or its client, has started; ended is nil if there is none.
type startedProgram struct {
	pid    int
	ended  <-chan struct{}
	forget func() // nil: nothing to forget
}

// runs reports whether there is a program that has not ended.
func (p *startedProgram) runs() bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.ended != nil
	}
}

// Close ends the session's queries, and the command that it started, if it
// still runs.
func (s *session) Close() error {
	s.mu.Lock()
	s.closed = true
	open := make([]*query.Query, 0, len(s.open))
	for q := range s.open {
		open = append(open, q)
	}
	c := s.command
	s.command = nil
	s.notify = nil
	s.mu.Unlock()
	if s.started.forget != nil {
		s.started.forget()
	}
	s.inbox.Close() // its triggers outlive it
	defer s.leave()
	for _, q := range open {
		q.Cancel()
		<-q.Done
		s.e.remove(q)
	}
	if c == nil {
		return nil
	}
	return c.End()
}

// env returns the planner's view of the session.
func (s *session) env(args ...types.Value) *planner.Env {
	overhead, floor := s.setting(overheadSetting).F/100, s.setting("overhead_floor").F
	noKernel, resolves := s.noKernel(), trigger.Formats[s.setting("webhook_format").S].Resolves
	s.mu.Lock()
	defer s.mu.Unlock()
	return &planner.Env{Params: args, Resolves: resolves, Views: s.e.views, Contexts: s.e.contexts, Triggers: s.e.triggers.Flows, Models: s.e.models, Results: s.e.options.Standing, Scope: s.scope, Target: s.target, ByThread: len(s.quiet.Threads) > 0, NoKernel: noKernel, Overhead: overhead, MostOverhead: s.may.Uses().Limits().Overhead, OverheadFloor: floor, File: s.filesOf(), Values: s.valueTypes, Programs: s.programs, Eval: expr.EvalConst}
}

// Execute runs one statement, and writes an audit record if it is refused.
func (s *session) Execute(ctx context.Context, text string, args ...types.Value) (wire.Result, error) {
	return s.ExecuteSplit(ctx, nil, text, args...)
}

// ExecuteSplit implements wire.Splitter: with a path, the client at its end
// executes the part of the plan that the engine does not.
func (s *session) ExecuteSplit(ctx context.Context, path wire.Path, text string, args ...types.Value) (wire.Result, error) {
	ctx = arrived(ctx)
	if err := s.awaitLog(ctx); err != nil {
		return nil, err
	}
	var stmt parser.Statement
	r, err := s.journaled(text, func() (wire.Result, error) {
		parsed, release, err := s.parse(text)
		defer release()
		if err != nil {
			return nil, err
		}
		stmt = parsed
		return s.execute(ctx, path, stmt, text, args)
	})
	s.recordStatement(stmt, text, err)
	return r, err
}

func (s *session) execute(ctx context.Context, path wire.Path, stmt parser.Statement, text string, args []types.Value) (wire.Result, error) {
	if len(args) > 0 {
		if n := parser.Params(text); n != len(args) {
			return nil, answer.Refuse(stmt, text, "", "the statement has %d parameters, and %d values were given", n, len(args))
		}
	}
	switch st := stmt.(type) {
	case *parser.Query:
		p, err := planner.Plan(st, text, s.env(args...))
		if err != nil {
			return nil, err
		}
		return s.run(ctx, path, text, p)
	case *parser.Insert:
		p, err := planner.PlanInsert(st, text, s.env(args...))
		if err != nil {
			return nil, err
		}
		return s.run(ctx, nil, text, p)
	case *parser.Explain:
		return s.explain(ctx, path, st, text, args)
	case *parser.CreateStream:
		return s.createStream(ctx, st, text)
	case *parser.Drop:
		return s.drop(ctx, st, text)
	case *parser.Use:
		return s.use(st, text)
	case *parser.Set:
		return s.set(st, text)
	case *parser.Stop:
		q := s.e.query(st.ID.Int)
		if q == nil || !s.may.Owns(q.Grant.Name()) {
			return nil, answer.Refuse(st.ID, text, "SHOW QUERIES lists them", "no query %d is running", st.ID.Int)
		}
		q.End()
		return answer.Messagef("query %d is ending", q.ID), nil
	case *parser.Show:
		return s.show(ctx, st, text)
	case *parser.Describe:
		return s.describe(ctx, st, text)
	case *parser.CreateTrigger:
		return s.createTrigger(ctx, st, text)
	case *parser.CreateModel:
		return s.createModel(ctx, st, text)
	case *parser.CreateQuery:
		return nil, answer.Refuse(st, text, "endoscope --fleet URL", "CREATE QUERY is of a fleet")
	case *parser.CreateExport:
		return s.createExport(ctx, st, text)
	case *parser.CreateContext:
		return s.createContext(ctx, st, text)
	case *parser.Suspend:
		return s.suspend(st.Thread, true), nil
	case *parser.Resume:
		return s.suspend(st.Thread, false), nil
	}
	return nil, answer.Unsupported(stmt, text, "this statement")
}

// ExecuteShare implements wire.Sharer.
func (s *session) ExecuteShare(ctx context.Context, host, text string, args ...types.Value) (wire.Result, error) {
	if err := s.awaitLog(ctx); err != nil {
		return nil, err
	}
	stmt, release, err := s.parse(text)
	defer release()
	ctx = arrived(ctx)
	q, ok := stmt.(*parser.Query)
	if err != nil || !ok || len(args) > 0 && parser.Params(text) != len(args) {
		release()
		return s.Execute(ctx, text, args...)
	}
	r, err := s.journaled(text, func() (wire.Result, error) { return s.share(ctx, host, q, text, args) })
	if err != nil {
		s.may.Refused("statement", text, "error", err.Error())
		return nil, err
	}
	return r, nil
}

// parse parses a statement. What parsing and planning it may allocate is charged to the
// session's user until release is called.
func (s *session) parse(text string) (stmt parser.Statement, release func(), err error) {
	release, err = s.may.Uses().Reserve(parser.PlanMemory*parser.Memory(text), "this statement")
	if err != nil {
		return nil, func() {}, answer.Forbidden(err, nil, "")
	}
	stmt, err = parser.Parse(text)
	return stmt, release, err
}

// share executes this host's part of a query over several hosts.
func (s *session) share(ctx context.Context, host string, q *parser.Query, text string, args []types.Value) (wire.Result, error) {
	env := s.env(args...)
	env.Host, env.Labels, env.Standing, env.Results = host, s.labels, s.stands, nil // results are those of the whole fleet
	p, upper, err := planner.PlanShare(q, text, env)
	if err != nil {
		return nil, err
	}
	encoded, err := planpb.Encode(upper)
	if err != nil {
		return nil, err
	}
	r, err := s.run(ctx, nil, text, p)
	if err != nil {
		return nil, err
	}
	share := r.(*query.Result)
	share.Shared = &wire.Share{Plan: encoded, Columns: answer.ColumnsOf(upper.Upper.Schema())}
	return share, nil
}

// run prepares and arms a plan.
func (s *session) run(ctx context.Context, path wire.Path, text string, p *plan.Query) (wire.Result, error) {
	q, err := s.startQuery(ctx, path, text, p)
	if err != nil {
		return nil, err
	}
	return &query.Result{Query: q, Forget: func() { s.forget(q) }, Notices: q.Notices(), Header: s.header(p.Root.Schema())}, nil
}

// header returns the columns of a result. With SET estimates = 'columns' bounds are columns
// like others.
func (s *session) header(of types.Schema) []wire.Column {
	cols := answer.ColumnsOf(of)
	if s.setting("estimates").S == "columns" {
		for i := range cols {
			cols[i].Bound = types.NoBound
		}
	}
	return cols
}

// startQuery prepares and arms a plan and enters the query in the engine's
// list. With a path it may be divided.
func (s *session) startQuery(ctx context.Context, path wire.Path, text string, p *plan.Query) (*query.Query, error) {
	p, err := s.permitted(p, text)
	if err != nil {
		return nil, err
	}
	q, err := s.prepare(ctx, text, p)
	if err != nil {
		return nil, err
	}
	q.Live, q.Unread, q.Marks, q.Timeout = s.live, s.unread, s.marks, s.timeout(ctx)
	s.budgets().apply(q)
	if err := s.divide(q, path); err != nil {
		q.Abandon()
		return nil, err
	}
	s.releaseWhenStarted(q)
	if err := s.enter(q); err != nil {
		return nil, err
	}
	if err = s.e.add(q); err == nil {
		err = q.Start()
	}
	if err != nil {
		s.forget(q)
		return nil, err
	}
	read := s.inbox.Reading(p)
	go func() {
		<-q.Done
		read()
		s.forget(q)
	}()
	return q, nil
}

// enter registers a query that is about to be started, so that Close ends it. A
// refused query is abandoned.
func (s *session) enter(q *query.Query) error {
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.open[q] = true
		q.PendingSignals = s.quiet.Signals()
		q.SuspendSources(s.quiet)
	}
	s.mu.Unlock()
	if closed {
		q.Abandon()
		return errors.New("the session is closed")
	}
	return nil
}

// releaseWhenStarted starts the session's command, if it has one, when q is
// armed, and reports that (wire.Options.Armed). A query that observes something
// else meanwhile ends with the command, or with the one that the client started.
func (s *session) releaseWhenStarted(q *query.Query) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(q.Feeds) == 0 && plan.EmitEvery(q.Plan.Root) == 0 {
		return // it has ended at once
	}
	c, armed := s.command, s.armed
	q.Release = func() {
		runs := s.started.runs()
		if c != nil {
			_ = c.Release() // it may have been killed meanwhile
		}
		if runs && !q.IsAbout(s.started.pid) {
			go q.EndWith(s.started.ended)
		}
		if armed != nil {
			armed()
		}
	}
}

// notifyUser notifies the user, if they still listen.
func (s *session) notifyUser(text string) {
	s.mu.Lock()
	notify := s.notify
	s.mu.Unlock()
	if notify != nil {
		notify(text)
	}
}

func (s *session) forget(q *query.Query) {
	s.e.remove(q)
	s.mu.Lock()
	delete(s.open, q)
	s.mu.Unlock()
}

func (s *session) use(st *parser.Use, text string) (wire.Result, error) {
	var t plan.Target
	var what string
	pos := st.Pos()
	switch {
	case st.None:
	case st.PID != nil:
		t, what, pos = plan.Target{PIDs: []int{int(st.PID.Int)}}, "process "+st.PID.Text, st.PID.Pos()
	case st.In != nil:
		t, what, pos = plan.Target{Containers: []plan.ContainerIs{{Column: container.ByName, Value: st.In.Str}}}, "container "+st.In.Str, st.In.Pos()
	case strings.HasPrefix(st.Name.Str, "/"):
		t, what, pos = plan.Target{Exes: []string{st.Name.Str}}, "executable "+st.Name.Str, st.Name.Pos()
	default:
		t, what, pos = plan.Target{Processes: []string{st.Name.Str}}, "processes named "+st.Name.Str, st.Name.Pos()
	}
	t.Viewer = s.may.Sees()
	if !t.IsZero() {
		t.Start, t.Stop = pos.Start, pos.Stop
		ps, err := process.Resolve(t)
		if err != nil {
			return nil, planner.Placed(err, text)
		}
		t.Start, t.Stop = 0, 0
		what += fmt.Sprintf(" (%d running)", len(ps))
	}
	s.mu.Lock()
	s.target = t
	s.mu.Unlock()
	if t.IsZero() {
		return answer.Messagef("no target"), nil
	}
	return answer.Messagef("target is %s", what), nil
}

// Triggered implements wire.Session.
func (s *session) Triggered(follow bool) wire.Result { return s.inbox.Result(follow) }

// Info returns the lines of \conninfo.
func (s *session) Info() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	target := s.target.String()
	if target == "" {
		target = "none"
	}
	return []string{"engine: in this process", "target: " + target, fmt.Sprintf("queries running: %d", len(s.open))}
}

// program returns the session's target.
func (s *session) program() introspect.Program {
	files := s.debugFiles()
	s.mu.Lock()
	defer s.mu.Unlock()
	return introspect.Program{Target: s.target, Modules: s.e.modules.With(files)}
}
