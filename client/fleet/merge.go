package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/parser"
	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/server/wire"
)

// merged is the result of an aggregate's second stage. What the hosts give goes
// into its operators as it comes; what these give follows when all hosts are
// through.
type merged struct {
	*gathered
	graph *operators.Graph
	leaf  operators.Leaf
	pick  []int // which of the hosts' columns the leaf's are
	out   sink
	cols  []wire.Column
	over  bool // the second stage is
}

// sink keeps what the operators give.
type sink struct {
	events []wire.Event
	rows   uint64
}

func (s *sink) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if b.Len() > 0 {
		s.rows += uint64(b.Len())
		s.events = append(s.events, wire.Event{Kind: wire.Rows, Batch: b.Retain()})
	}
	return operators.More, nil
}

func (s *sink) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	return operators.More, nil
}

func (s *sink) Close(context.Context, int) error { return nil }

// merge executes the first stage at every host.
func (s *session) merge(ctx context.Context, sp *split, args []batch.Value) (wire.Result, error) {
	var named []wire.Column
	if sp.merge.sort == nil {
		// What is wrong with the statement is said of the statement, not of its stages.
		d, err := s.Describe(ctx, sp.merge.src)
		if err != nil {
			return nil, err
		}
		named = d.Columns
	}
	parts, err := s.begin(ctx, sp.each, args)
	if err != nil {
		return nil, err
	}
	m := &merged{gathered: s.gather(parts, sp.host, 0)}
	second := sp.merge
	if second.sort != nil {
		named = m.gathered.cols
		if second, err = second.inOrder(m.gathered); err != nil {
			return nil, errors.Join(err, m.gathered.Close())
		}
	}
	if err := m.build(second, named, args); err != nil {
		return nil, errors.Join(fmt.Errorf("the rows of hosts cannot be merged: %w", err), m.gathered.Close())
	}
	return m, nil
}

// inOrder is the second stage that puts rows in order. The columns get names that
// differ; the result has those that they had.
func (m *merge) inOrder(g *gathered) (*merge, error) {
	had := g.cols
	g.cols = slices.Clone(had)
	names := make([]string, len(had))
	for i := range had {
		names[i] = "c" + strconv.Itoa(i)
		g.cols[i].Name = names[i]
	}
	query := "SELECT " + strings.Join(names, ", ") + " FROM file('" + secondSource + "')"
	for i, k := range m.sort.keys {
		at := k.column
		if at < 0 {
			at = slices.IndexFunc(had, func(c wire.Column) bool { return strings.EqualFold(c.Name, k.name) })
		}
		if at < 0 || at >= len(had) {
			pos := k.at.Pos()
			return nil, &parser.Error{Msg: "rows of several hosts are put in order by columns of the result", Hint: "select " + m.src[pos.Start:pos.Stop] + ", too", Pos: pos, Src: m.src}
		}
		query += map[bool]string{true: " ORDER BY ", false: ", "}[i == 0] + names[at]
		if k.desc {
			query += " DESC"
		}
	}
	query += ", " + names[min(g.host, len(had)-1)] // equal rows: by host, not by who was first
	if m.sort.limit != "" {
		query += " LIMIT " + m.sort.limit
	}
	return &merge{src: m.src, query: query}, nil
}

// build plans the second stage over the columns that the hosts give.
func (m *merged) build(second *merge, cols []wire.Column, args []batch.Value) error {
	query := second.query
	in := plan.Schema{Time: -1}
	types := map[string]batch.Type{}
	for _, c := range m.gathered.cols {
		in.Fields = append(in.Fields, plan.Field{Name: c.Name, Type: c.Type})
		types[c.Name] = c.Type
	}
	for _, c := range second.byType {
		text := c.other
		if types[c.column] == batch.Duration {
			text = c.duration
		}
		query = strings.ReplaceAll(query, c.mark, text)
	}
	stmt, err := parser.Parse(query)
	if err != nil {
		return err
	}
	q, ok := stmt.(*parser.Query)
	if !ok {
		return fmt.Errorf("%s is no query", query)
	}
	p, err := planner.Plan(q, query, &planner.Env{NoKernel: true, Params: args, Eval: expr.EvalConst,
		File: func(string) (plan.Schema, error) { return in, nil }})
	if err != nil {
		return err
	}
	if m.graph, err = operators.Build(p.Root, &m.out, &operators.Options{Start: time.Now().UnixNano()}); err != nil {
		return err
	}
	m.leaf = m.graph.Leaves[0]
	for _, f := range m.leaf.Acquire.Out.Fields {
		m.pick = append(m.pick, in.Index(f.Name))
	}
	for i, f := range p.Root.Schema().Fields {
		c := wire.Column{Name: f.Name, Type: f.Type}
		if i < len(cols) {
			c.Name = cols[i].Name // as the statement has it
		}
		m.cols = append(m.cols, c)
	}
	return nil
}

func (m *merged) Columns() []wire.Column { return m.cols }
func (m *merged) Message() string        { return "" }

func (m *merged) Next(ctx context.Context) (wire.Event, error) {
	for !m.over {
		ev, err := m.gathered.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			m.over = true
			if err := m.leaf.Op.Close(ctx, m.leaf.Port); err != nil {
				return wire.Event{}, err
			}
		case err != nil:
			return wire.Event{}, err
		case ev.Kind == wire.Notice:
			return ev, nil
		case ev.Batch != nil:
			if err := m.push(ctx, ev.Batch); err != nil {
				return wire.Event{}, err
			}
		}
	}
	if len(m.out.events) == 0 {
		return wire.Event{}, io.EOF
	}
	ev := m.out.events[0]
	m.out.events = m.out.events[1:]
	return ev, nil
}

// push gives the second stage rows of a host.
func (m *merged) push(ctx context.Context, b *batch.Batch) error {
	cols := make([]batch.Column, len(m.pick))
	for i, c := range m.pick {
		cols[i] = b.Cols[c]
	}
	d := b.Derive(nil, cols)
	b.Release()
	defer d.Release()
	_, err := m.leaf.Op.Push(ctx, m.leaf.Port, d)
	return err
}

func (m *merged) Close() error {
	err := m.gathered.Close()
	if !m.over {
		m.over = true
		_ = m.graph.Abandon()
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
	sum.Rows = m.out.rows
	return sum
}
