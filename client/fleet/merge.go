package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/definitions"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// second is the second stage of a statement: a plan over what the hosts give.
type second struct {
	plan *plan.Query
	in   []wire.Column // of the hosts
	cols []wire.Column
}

// planSecond plans a second stage over columns of hosts. named are the columns of the
// result, as the statement has them.
func planSecond(m *merge, in, named []wire.Column, args []types.Value) (*second, error) {
	query := m.query
	schema := types.Schema{Time: -1}
	kinds := map[string]types.Type{}
	for _, c := range in {
		schema.Fields = append(schema.Fields, types.Field{Name: c.Name, Type: c.Type})
		kinds[c.Name] = c.Type
	}
	for _, c := range m.byType {
		text := c.other
		if kinds[c.column] == types.Duration {
			text = c.duration
		}
		query = strings.ReplaceAll(query, c.mark, text)
	}
	stmt, err := parser.Parse(query)
	if err != nil {
		return nil, err
	}
	q, ok := stmt.(*parser.Query)
	if !ok {
		return nil, fmt.Errorf("%s is no query", query)
	}
	p, err := planner.Plan(q, query, &planner.Env{NoKernel: true, Views: definitions.NewViews(), Params: args, Eval: expr.EvalConst,
		File: func(string) (types.Schema, error) { return schema, nil }})
	if err != nil {
		return nil, err
	}
	s := &second{plan: p, in: in}
	for i, f := range p.Root.Schema().Fields {
		c := wire.Column{Name: f.Name, Type: f.Type}
		if i < len(named) {
			c.Name = named[i].Name // as the statement has it
		}
		s.cols = append(s.cols, c)
	}
	return s, nil
}

// run is a second stage at work on one result.
type run struct {
	graph  *graph.Graph
	leaf   graph.Leaf
	pick   []int // which of the hosts' columns the leaf's are
	out    sink
	enough bool // nothing more is wanted
}

// sink keeps what the operators give.
type sink struct {
	events []wire.Event
	rows   atomic.Uint64 // a summary is asked for at any time
}

func (s *sink) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if b.Len() > 0 {
		s.rows.Add(uint64(b.Len()))
		s.events = append(s.events, wire.Event{Kind: wire.Rows, Batch: b.Retain()})
	}
	return operators.More, nil
}

func (s *sink) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (s *sink) Close(context.Context, int) error { return nil }

// begin makes the operators.
func (s *second) begin() (*run, error) {
	r := &run{}
	var err error
	if r.graph, err = graph.Build(s.plan.Root, &r.out, &operators.Options{Start: time.Now().UnixNano()}); err != nil {
		return nil, err
	}
	r.leaf = r.graph.Leaves[0]
	for _, f := range r.leaf.Acquire.Out.Fields {
		r.pick = append(r.pick, slices.IndexFunc(s.in, func(c wire.Column) bool { return c.Name == f.Name }))
	}
	return r, nil
}

// push gives the second stage rows of a host, and lets go of them.
func (r *run) push(ctx context.Context, b *batch.Batch) error {
	cols := make([]batch.Column, len(r.pick))
	for i, c := range r.pick {
		cols[i] = b.Cols[c]
	}
	d := b.Derive(nil, cols)
	b.Release()
	defer d.Release()
	st, err := r.leaf.Op.Push(ctx, r.leaf.Port, d)
	r.enough = r.enough || st != operators.More
	return err
}

// of is what the second stage gives of the hosts' rows for one result, which it lets go
// of, and how many rows that is.
func (s *second) of(ctx context.Context, rows []*batch.Batch) ([]wire.Event, uint64, error) {
	run, err := s.begin()
	if err != nil {
		release(rows)
		return nil, 0, err
	}
	for i, b := range rows {
		if err := run.push(ctx, b); err != nil {
			release(rows[i+1:])
			return nil, 0, errors.Join(err, run.abandon())
		}
	}
	if err := run.finish(ctx); err != nil {
		return nil, 0, errors.Join(err, run.abandon())
	}
	return run.out.events, run.out.rows.Load(), nil
}

// abandon lets go of what it has, and has given.
func (r *run) abandon() error {
	for _, ev := range r.out.events {
		ev.Batch.Release()
	}
	r.out.events = nil
	return r.graph.Abandon()
}

// finish has it give what it has.
func (r *run) finish(ctx context.Context) error { return r.leaf.Op.Close(ctx, r.leaf.Port) }

// merge executes the first stage at every host.
func (s *session) merge(ctx context.Context, sp *split, args []types.Value) (wire.Result, error) {
	var named []wire.Column
	if sp.merge.arrange == nil || sp.merge.before != "" {
		// What is wrong with the statement is said of the statement, not of its stages.
		d, err := s.describe(ctx, s.without(sp.silent), sp.merge.src)
		if err != nil {
			return nil, err
		}
		named = d.Columns
	}
	parts, err := s.begin(ctx, sp, args)
	if err != nil {
		return nil, err
	}
	g := s.gather(parts, sp.host, 0)
	g.with(sp)
	how := sp.merge
	if how.arrange != nil {
		cols := named
		if how, cols, err = how.arrangement(g); err != nil {
			return nil, errors.Join(err, g.Close())
		}
		if named == nil {
			named = cols
		}
	}
	second, err := planSecond(how, g.cols, named, args)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the rows of hosts cannot be merged: %w", err), g.Close())
	}
	switch sp.merge.again {
	case byWindow, byRound:
		return &rounds{paced: paced{gathered: g}, second: second, by: how.again, borders: how.borders, closed: math.MinInt64}, nil
	case bySession:
		return newSessions(g, second, sp.merge), nil
	case byChange:
		return newChanges(g, second, sp.merge), nil
	}
	m := &merged{gathered: g, cols: second.cols}
	if m.run, err = second.begin(); err != nil {
		return nil, errors.Join(fmt.Errorf("the rows of hosts cannot be merged: %w", err), g.Close())
	}
	return m, nil
}

// merged is the result of a second stage. What the hosts give goes into its operators
// as it comes; what these give is the result.
type merged struct {
	*gathered
	*run
	cols []wire.Column
	over bool // the second stage is
}

func (m *merged) Columns() []wire.Column { return m.cols }
func (m *merged) Message() string        { return "" }

func (m *merged) Next(ctx context.Context) (wire.Event, error) {
	for {
		if ev, ok := m.noted(); ok {
			return ev, nil
		}
		if len(m.out.events) > 0 {
			ev := m.out.events[0]
			m.out.events = m.out.events[1:]
			return ev, nil
		}
		if m.over {
			return wire.Event{}, io.EOF
		}
		x, err := m.next(ctx, nil)
		switch {
		case errors.Is(err, io.EOF):
			m.over = true
			if err := m.finish(ctx); err != nil {
				return wire.Event{}, err
			}
		case err != nil:
			return wire.Event{}, err
		case x.ev.Kind == wire.Notice && !x.over:
			return x.ev, nil
		case x.ev.Batch != nil:
			if m.enough {
				x.ev.Batch.Release()
				continue
			}
			if err := m.push(ctx, x.ev.Batch); err != nil {
				return wire.Event{}, err
			}
			if m.enough {
				m.Stop() // the hosts need not go on
			}
		}
	}
}

func (m *merged) Close() error {
	err := m.gathered.Close()
	if !m.over {
		m.over = true
		_ = m.abandon()
	}
	for _, ev := range m.out.events {
		ev.Batch.Release()
	}
	m.out.events = nil
	return err
}

// Summary has the result's rows, and what the hosts say besides.
func (m *merged) Summary() wire.Summary {
	sum := m.gathered.Summary()
	sum.Rows = m.out.rows.Load()
	return sum
}
