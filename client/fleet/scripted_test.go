package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// scripted is a host that answers each statement with the steps that a test adds.
type scripted struct {
	name  string
	cols  []wire.Column
	ahead time.Duration // of its clock, and
	by    time.Duration // the uncertainty of that
	steps chan step
	other string               // the statement that it executes instead
	edit  func(*plan.Fragment) // changes the plan that it sends; nil: no change
	// mute: it never answers statements that contain this text, nor requests to
	// describe them.
	mute string
	// hung, unless it is nil, is closed when the host continues: until then it neither
	// returns its information nor confirms the end of a result.
	hung chan struct{}
}

// step is an event that a host returns, or its end.
type step struct {
	ev  wire.Event
	err error
}

func newScripted(name string, cols ...wire.Column) *scripted {
	return &scripted{name: name, cols: cols, steps: make(chan step, 100)}
}

func (s *scripted) send(evs ...wire.Event) *scripted {
	for _, ev := range evs {
		s.steps <- step{ev: ev}
	}
	return s
}

func (s *scripted) end()  { s.steps <- step{err: io.EOF} }
func (s *scripted) fail() { s.steps <- step{err: &silentError{s.name}} }

// rows are some, of BIGINT, TIMESTAMP or BYTES columns.
func (s *scripted) rows(rows ...[]int64) wire.Event {
	kinds := make([]types.Type, len(s.cols))
	for i, c := range s.cols {
		kinds[i] = c.Type
	}
	b := batch.New(kinds)
	for _, row := range rows {
		var values []types.Value
		if kinds[0] == types.Varchar { // the host
			values = append(values, types.Str(s.name))
		}
		for _, v := range row {
			values = append(values, types.Value{Type: kinds[len(values)], I: v})
		}
		b.AppendRow(values...)
	}
	return wire.Event{Kind: wire.Rows, Batch: b}
}

func mark(t int64) wire.Event { return wire.Event{Kind: wire.Mark, Mark: t} }

var flush = wire.Event{Kind: wire.Flush}

// sessionOf returns a session of scripted hosts.
func sessionOf(hosts ...*scripted) *session {
	s := &session{limits: few}
	for _, h := range hosts {
		s.members = append(s.members, &member{name: h.name, session: scriptedSession{s: h}, clock: scriptedSession{s: h}})
	}
	s.clocks.measure(context.Background(), s.members)
	return s
}

type scriptedSession struct {
	wire.Session
	s *scripted
}

func (x scriptedSession) Clock(context.Context) (ahead, uncertain time.Duration, err error) {
	return x.s.ahead, x.s.by, nil
}

func (x scriptedSession) Execute(ctx context.Context, statement string, _ ...types.Value) (wire.Result, error) {
	if err := x.answers(ctx, statement); err != nil {
		return nil, err
	}
	return &scriptedResult{s: x.s, stopped: make(chan struct{}, 100)}, nil
}

// ExecuteShare plans the statement like a host; the rows are those of the test.
func (x scriptedSession) ExecuteShare(ctx context.Context, host, statement string, _ ...types.Value) (wire.Result, error) {
	if err := x.answers(ctx, statement); err != nil {
		return nil, err
	}
	if x.s.other != "" {
		statement = x.s.other
	}
	lower, upper, err := sharePlan(host, statement)
	if err != nil {
		return nil, err
	}
	if kinds := lower.Root.Schema().Types(); !slices.Equal(kinds, typesOf(x.s.cols)) {
		return nil, fmt.Errorf("the test's columns are %v, the plan's %v", typesOf(x.s.cols), kinds)
	}
	if x.s.edit != nil {
		x.s.edit(upper)
	}
	encoded, err := planpb.Encode(upper)
	if err != nil {
		return nil, err
	}
	r := &scriptedResult{s: x.s, stopped: make(chan struct{}, 100), share: &wire.Share{Plan: encoded}}
	for _, f := range upper.Upper.Schema().Fields {
		r.share.Columns = append(r.share.Columns, wire.Column{Name: f.Name, Type: f.Type})
	}
	return r, nil
}

func sharePlan(host, statement string) (*plan.Query, *plan.Fragment, error) {
	stmt, err := parser.Parse(statement)
	if err != nil {
		return nil, nil, err
	}
	env := &planner.Env{Host: host, Views: definitions.NewViews(), Target: plan.Target{PIDs: []int{42}}, Eval: expr.EvalConst}
	return planner.PlanShare(stmt.(*parser.Query), statement, env)
}

// Describe describes the complete result of the statements of these tests.
func (x scriptedSession) Describe(ctx context.Context, statement string) (wire.Description, error) {
	return wire.Description{}, x.answers(ctx, statement)
}

// answers returns when the host would, if it does.
func (x scriptedSession) answers(ctx context.Context, statement string) error {
	if x.s.mute == "" || !strings.Contains(statement, x.s.mute) {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// Complete returns the host's name.
func (x scriptedSession) Complete(ctx context.Context, _, _, prefix string) []string {
	if x.answers(ctx, prefix) != nil {
		return nil
	}
	return []string{prefix + x.s.name}
}

func (x scriptedSession) Info() []string {
	x.s.block()
	return []string{"engine: " + x.s.name}
}

func (s *scripted) block() {
	if s.hung != nil {
		<-s.hung
	}
}

type scriptedResult struct {
	s       *scripted
	share   *wire.Share
	stopped chan struct{}
}

func (r *scriptedResult) Columns() []wire.Column { return r.s.cols }
func (r *scriptedResult) Info() wire.Info        { return wire.Info{Share: r.share} }
func (r *scriptedResult) Message() string        { return "" }
func (r *scriptedResult) Stop()                  { r.stopped <- struct{}{} }
func (r *scriptedResult) Close() error           { r.s.block(); return nil }
func (r *scriptedResult) Summary() wire.Summary  { return wire.Summary{} }

func (r *scriptedResult) Next(ctx context.Context) (wire.Event, error) {
	select {
	case st := <-r.s.steps:
		return st.ev, st.err
	case <-r.stopped:
		return wire.Event{}, io.EOF
	case <-ctx.Done():
		return wire.Event{}, ctx.Err()
	}
}

// text is an event as tests compare it: the rows, or what else it is.
func text(ev wire.Event) string {
	switch {
	case ev.Kind == wire.Flush:
		return "flush"
	case ev.Kind == wire.Notice:
		return ev.Text
	}
	defer ev.Batch.Release()
	var rows []string
	for i := range ev.Batch.Len() {
		var cells []string
		for c := range ev.Batch.Cols {
			switch v := ev.Batch.Cols[c].Value(ev.Batch.Row(i)); v.Type {
			case types.Varchar:
				cells = append(cells, v.S)
			default:
				cells = append(cells, fmt.Sprint(v.I))
			}
		}
		rows = append(rows, strings.Join(cells, " "))
	}
	return strings.Join(rows, ",")
}

// rest returns all remaining events of a result.
func rest(t testing.TB, r wire.Result) (out []string) {
	t.Helper()
	for {
		ev, err := r.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, text(ev))
	}
}
