package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// run is one execution of the upper part, for one result.
type run struct {
	graph  *graph.Graph
	leaf   graph.Leaf
	into   operators.Operator // of the leaf
	port   int
	pick   []int // which of the hosts' columns the leaf's are
	out    sink
	enough bool  // the operators need no more rows
	ended  int64 // when the hosts' queries ended, by expr.Clock; 0: they have not
}

// sink collects the output of the operators.
type sink struct {
	events []wire.Event
	rows   atomic.Uint64 // Summary may read it at any time
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

// begin creates the operators. began is the start time of the query, by
// expr.Clock.
func (u *upper) begin(began int64) (r *run, err error) {
	defer recoverError(&err)
	r = &run{pick: u.Exchange.Pick}
	clock := func() int64 { return cmp.Or(r.ended, expr.Clock()) }
	if r.graph, err = graph.Build(u.Upper, &r.out, &operators.Options{Start: began, Clock: clock}); err != nil {
		return nil, err
	}
	r.leaf = r.graph.Leaves[0]
	r.into, r.port = r.leaf.Op, r.leaf.Port
	if u.states() != nil {
		if r.into, r.port = r.leaf.Partial, 0; r.into == nil {
			return nil, errors.New("the results of the hosts cannot be merged")
		}
	}
	return r, nil
}

// caught, deferred, converts a panic caused by what a host sent to an error.
func recoverError(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("what a host sent cannot be executed: %v", fault)
	}
}

// push passes a host's rows to the upper part and releases them.
func (r *run) push(ctx context.Context, b *batch.Batch) (err error) {
	defer recoverError(&err)
	cols := make([]batch.Column, len(r.pick))
	for i, c := range r.pick {
		cols[i] = b.Cols[c]
	}
	d := b.Derive(nil, cols)
	b.Release()
	defer d.Release()
	st, err := r.into.Push(ctx, r.port, d)
	r.enough = r.enough || st != operators.More
	return err
}

// result executes the upper part over the hosts' rows of one result and releases
// these. It returns the output and its number of rows.
//
// Of a Reduced the output are merged states.
func (u *upper) result(ctx context.Context, began int64, all []*batch.Batch) ([]wire.Event, uint64, error) {
	if u.reduces {
		return u.reduce(all)
	}
	run, err := u.begin(began)
	if err != nil {
		release(all)
		return nil, 0, err
	}
	for i, b := range all {
		if err := run.push(ctx, b); err != nil {
			release(all[i+1:])
			return nil, 0, errors.Join(err, run.abandon())
		}
	}
	if err := run.finish(ctx); err != nil {
		return nil, 0, errors.Join(err, run.abandon())
	}
	return run.out.events, run.out.rows.Load(), nil
}

// abandon releases the operators and their collected output.
func (r *run) abandon() error {
	for _, ev := range r.out.events {
		ev.Batch.Release()
	}
	r.out.events = nil
	return r.graph.Abandon()
}

// finish flushes and closes the operators.
func (r *run) finish(ctx context.Context) (err error) {
	defer recoverError(&err)
	return r.leaf.Op.Close(ctx, r.leaf.Port)
}

// result combines the shares of several hosts into one result.
func (s *session) result(parts []*part, u *upper) (wire.Result, error) {
	x := u.Exchange
	g := s.gather(parts, -1, 0)
	g.of, g.footnotes, g.shift = u, x.Notices, u.timed()
	switch {
	case u.plain() && x.Kind == plan.MergeOrdered:
		g.cols, g.limit = u.cols, x.Limit
		return &ordered{aligned: aligned{gathered: g}, column: x.Time}, nil
	case u.plain():
		g.cols, g.limit = u.cols, x.Limit
		return g, nil
	}
	g.upper = u
	if s.reduces {
		return &rounds{aligned: aligned{gathered: g}, by: x.Again, closed: math.MinInt64}, nil
	}
	switch x.Again {
	case plan.PerWindow, plan.PerRound:
		return &rounds{aligned: aligned{gathered: g}, by: x.Again, closed: math.MinInt64}, nil
	case plan.PerSession:
		return newSessions(g), nil
	case plan.PerChange:
		return newChanges(g), nil
	}
	m := &merged{gathered: g}
	var err error
	if m.run, err = u.begin(g.armed()); err != nil {
		return nil, errors.Join(fmt.Errorf("the rows of hosts cannot be merged: %w", err), g.Close())
	}
	return m, nil
}

// armed returns when the query began at the hosts, by expr.Clock.
func (g *gathered) armed() int64 {
	return expr.Clock() - int64(time.Since(g.began)) - g.upper.running
}

// merged is the result of the upper part over all hosts. Rows enter its operators
// as they arrive; the output of the operators is the result.
type merged struct {
	*gathered
	*run
	over bool // the upper part is
}

func (m *merged) Columns() []wire.Column { return m.upper.cols }
func (m *merged) Message() string        { return "" }

func (m *merged) Next(ctx context.Context) (wire.Event, error) {
	for {
		if ev, ok := m.nextNote(); ok {
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
		case err == io.EOF:
			if err := m.end(ctx); err != nil {
				return wire.Event{}, err
			}
		case err != nil:
			return wire.Event{}, err
		case x.ev.Kind == wire.Notice && !x.over:
			return x.ev, nil
		case m.upper.states() != nil:
			if err := m.accept(ctx, m.complete(x)); err != nil {
				return wire.Event{}, err
			}
		case x.ev.Batch != nil:
			if err := m.accept(ctx, []*batch.Batch{x.ev.Batch}); err != nil {
				return wire.Event{}, err
			}
		}
	}
}

// accept passes what hosts sent to the upper part, and releases it.
func (m *merged) accept(ctx context.Context, all []*batch.Batch) error {
	for i, b := range all {
		if m.enough {
			b.Release()
			continue
		}
		if err := m.push(ctx, b); err != nil {
			release(all[i+1:])
			return err
		}
		if m.enough {
			m.Stop() // the hosts need not go on
		}
	}
	return nil
}

// end flushes the upper part after all hosts have ended.
func (m *merged) end(ctx context.Context) error {
	var ran time.Duration
	for _, p := range m.parts {
		if p.res != nil {
			ran = max(ran, p.res.Summary().Elapsed)
		}
	}
	if ran > 0 {
		m.ended = m.armed() + int64(ran)
	}
	m.over = true
	return m.finish(ctx)
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

// Summary returns the number of result rows, and the other counters of the hosts.
func (m *merged) Summary() wire.Summary {
	sum := m.gathered.Summary()
	sum.Rows = m.out.rows.Load()
	return sum
}

// shifted returns the rows with the host's clock offset subtracted from the times
// in columns.
func shifted(b *batch.Batch, columns []int, ahead time.Duration) *batch.Batch {
	cols := slices.Clone(b.Cols)
	for _, c := range columns {
		at := cols[c]
		at.Int = slices.Clone(at.Int)
		for i := range at.Int {
			at.Int[i] -= int64(ahead)
		}
		cols[c] = at
	}
	with := b.Derive(nil, cols)
	b.Release()
	return with
}

// constantColumn returns a column with the same number in every row.
func constantColumn(t types.Type, at int64) batch.Column {
	c := batch.Column{Type: t, Int: make([]int64, batch.MaxRows)}
	for i := range c.Int {
		c.Int[i] = at
	}
	return c
}
