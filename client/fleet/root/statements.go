package root

import (
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"endoscope/client/fleet"
	"endoscope/parser"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// Execute implements wire.Session.
func (s *session) Execute(ctx context.Context, text string, args ...types.Value) (wire.Result, error) {
	stmt, err := parser.Parse(text)
	if err != nil {
		return nil, err
	}
	if names := sources(stmt); len(names) > 0 {
		if at := s.keeperOf(ctx, names); at != nil {
			return s.at(ctx, at, text, args)
		}
	}
	switch st := stmt.(type) {
	case *parser.Show:
		switch st.What {
		case "HOSTS":
			return s.e.hosts.table(st)
		case "QUERIES":
			return s.showStanding(ctx, st)
		}
	case *parser.CreateQuery:
		return s.createStanding(ctx, st, text)
	case *parser.Drop:
		if st.Kind == "QUERY" {
			return s.dropStanding(ctx, st, text)
		}
	case *parser.Set, *parser.Use:
		return s.setting(ctx, stmt, text, args)
	case *parser.Query, *parser.Describe, *parser.Explain, *parser.CreateStream, *parser.CreateContext:
	default:
		return nil, &parser.Error{Msg: "a fleet executes queries, SHOW, DESCRIBE, EXPLAIN, SET, USE, CREATE STREAM, CREATE QUERY, CREATE CONTEXT and DROP", Hint: "endoscope --connect HOST:PORT for a statement of one host", Src: text, Pos: stmt.Pos()}
	}
	q, query := stmt.(*parser.Query)
	p, err := s.publish(ctx, text, args, query, s.e.hosts.selected(q, text))
	if err != nil {
		return nil, err
	}
	return fleet.Collect(ctx, stmt, p)
}

// setting executes a statement that later statements depend on, at all hosts.
func (s *session) setting(ctx context.Context, stmt parser.Statement, text string, args []types.Value) (wire.Result, error) {
	p, err := s.publish(ctx, text, args, false, s.e.hosts.selected(nil, text))
	if err != nil {
		return nil, err
	}
	res, err := fleet.Collect(ctx, stmt, p)
	if err == nil {
		s.prelude.add(text)
	}
	return res, err
}

// prelude are the statements on which later ones of a session depend.
type prelude struct {
	mu    sync.Mutex
	texts []string
}

func (p *prelude) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts = append(p.texts, text)
}

func (p *prelude) statements() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.texts)
}

// nothing is a result without rows.
type nothing struct{ text string }

func (nothing) Columns() []wire.Column                   { return nil }
func (n nothing) Message() string                        { return n.text }
func (nothing) Info() wire.Info                          { return wire.Info{} }
func (nothing) Stop()                                    {}
func (nothing) Close() error                             { return nil }
func (nothing) Summary() wire.Summary                    { return wire.Summary{} }
func (nothing) Next(context.Context) (wire.Event, error) { return wire.Event{}, io.EOF }

// silentFor is how long a host may send no heartbeat before it counts as silent.
const silentFor = 3 * time.Second
