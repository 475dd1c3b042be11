package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/expr"
	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/planner/plan/planpb"
	"endoscope/planner/types"
	"endoscope/server/wire"
)

// fragment executes what the server leaves to its client (plan.Fragment):
//
//	PortRows ─► lower ─► upper ─► result
//	PortLowered ─────────┤
//	PortStates ──────────┘ merged by upper's aggregate
//
// The reader of the result drives it.
type fragment struct {
	columns []wire.Column            // of the result
	types   [wire.Ports][]types.Type // of the rows for each port; nil if it accepts none
	lower   graph.Leaf
	upper   graph.Leaf
	graphs  []*graph.Graph
	began   int64 // when the query did, by this machine's clock
	ended   int64 // and when it ended, by the server's report; 0 if it has not
	full    bool  // upper needs no more rows
	closed  bool
	// previewing is set while the operators answer a Tick that asks for a preview.
	previewing bool

	mu     sync.Mutex // guards what follows
	rows   uint64
	losses []wire.Loss
}

// errMisfit refuses what would have operators read columns that are others.
var errMisfit = errors.New("the fragment of the plan that the server sent does not fit its result")

// newFragment builds the operators of a fragment. They pass their output to give.
func newFragment(w *wire.Fragment, give func(wire.Event) error) (f *fragment, err error) {
	defer recoverError(&err)
	p, err := planpb.Decode(w.Plan)
	if err != nil {
		return nil, err
	}
	f = &fragment{began: expr.Clock() - w.Running, columns: w.Columns}
	for _, c := range w.Columns {
		f.types[wire.PortResult] = append(f.types[wire.PortResult], c.Type)
	}
	f.types[wire.PortRows] = plan.Source(p.Lower).Out.Types()
	f.types[wire.PortLowered] = p.Lowered().Types()
	if first := p.Partial(); first != nil {
		f.types[wire.PortStates] = first.Out.Types()
	}
	out := &fragmentSink{f: f, give: give}
	if w.Measured {
		out.give = nil
	} else if !slices.Equal(f.types[wire.PortResult], p.Upper.Schema().Types()) {
		return nil, errMisfit
	}
	if f.upper, err = f.build(p.Upper, out); err != nil {
		return nil, err
	}
	if p.Partial() != nil && f.upper.Partial == nil {
		return nil, errMisfit // its states would be lost
	}
	f.lower, err = f.build(p.Lower, toUpper{f})
	return f, err
}

// recoverError, deferred, converts a panic caused by what a server sent to an error: the
// result fails, the client continues.
func recoverError(err *error) {
	if fault := recover(); fault != nil {
		*err = fmt.Errorf("what the server sent cannot be executed: %v", fault)
	}
}

// accepts reports whether a port accepts records with these columns.
func (f *fragment) accepts(port wire.Port, cols []wire.Column) bool {
	return port < wire.Ports && f.types[port] != nil &&
		slices.EqualFunc(cols, f.types[port], func(c wire.Column, t types.Type) bool { return c.Type == t })
}

func (f *fragment) build(root plan.Node, sink operators.Operator) (graph.Leaf, error) {
	g, err := graph.Build(root, sink, &operators.Options{Start: f.began, Clock: f.clock})
	if err != nil {
		return graph.Leaf{}, err
	}
	f.graphs = append(f.graphs, g)
	return g.Leaves[0], nil
}

// clock returns the time by which RATE counts. If a result is read later than it
// was produced, its end is the server's.
func (f *fragment) clock() int64 {
	if f.ended != 0 {
		return f.ended
	}
	return expr.Clock()
}

// push executes what there is to do with rows of a port.
func (f *fragment) push(ctx context.Context, port wire.Port, b *batch.Batch) (err error) {
	defer recoverError(&err)
	if f.full || f.closed {
		return nil
	}
	st := operators.More
	switch port {
	case wire.PortRows:
		st, err = f.lower.Op.Push(ctx, f.lower.Port, b)
	case wire.PortLowered:
		st, err = f.upper.Op.Push(ctx, f.upper.Port, b)
	case wire.PortStates:
		if f.upper.Partial != nil {
			st, err = f.upper.Partial.Push(ctx, 0, b)
		}
	}
	f.full = f.full || st != operators.More
	return err
}

// cue passes the operators the cue that the server's operators received.
func (f *fragment) cue(ctx context.Context, m wire.Cue) (err error) {
	defer recoverError(&err)
	if f.full || f.closed {
		return nil
	}
	s := operators.Signal{Time: m.Time, Preview: m.Preview}
	switch m.Kind {
	case wire.CueWatermark:
		s.Kind = operators.Watermark
	case wire.CueTick:
		s.Kind, s.Time = operators.Tick, f.began+m.Time
		f.previewing = m.Preview
		defer func() { f.previewing = false }()
	case wire.CueEnd:
		f.ended = f.began + m.Time
		return nil
	case wire.CueFlush:
		s.Kind, s.Time = operators.Flush, expr.Clock()
	}
	st, err := f.lower.Op.Signal(ctx, f.lower.Port, s)
	f.full = f.full || st != operators.More
	return err
}

// close closes the operators, which flush their remaining rows.
func (f *fragment) close(ctx context.Context) (err error) {
	defer recoverError(&err)
	if f.closed {
		return nil
	}
	f.closed = true
	return f.lower.Op.Close(ctx, f.lower.Port)
}

// abandon releases a fragment, whether it was closed or not.
func (f *fragment) abandon() {
	if f == nil {
		return
	}
	for _, g := range f.graphs {
		_ = g.Abandon()
	}
}

// summary returns the server's summary, with the rows of the result instead of the
// rows sent.
func (f *fragment) summary(s wire.Summary) wire.Summary {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Rows = f.rows
	s.Losses = sum(s.Losses, f.losses)
	return s
}

// given returns the number of rows of the result.
func (f *fragment) given() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rows
}

// toUpper receives the output of lower.
type toUpper struct{ f *fragment }

func (t toUpper) Push(ctx context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	return t.f.upper.Op.Push(ctx, t.f.upper.Port, b)
}

func (t toUpper) Signal(ctx context.Context, _ int, s operators.Signal) (operators.Status, error) {
	return t.f.upper.Op.Signal(ctx, t.f.upper.Port, s)
}

func (t toUpper) Close(ctx context.Context, _ int) error {
	return t.f.upper.Op.Close(ctx, t.f.upper.Port)
}

// fragmentSink converts the output of upper to events.
type fragmentSink struct {
	f    *fragment
	give func(wire.Event) error // nil: output is discarded
}

func (s *fragmentSink) Push(_ context.Context, _ int, b *batch.Batch) (operators.Status, error) {
	if b.Len() == 0 {
		return operators.More, nil
	}
	ev := wire.Event{Kind: wire.Rows, Preview: s.f.previewing}
	if !ev.Preview {
		s.f.mu.Lock()
		ev.Row = s.f.rows
		s.f.rows += uint64(b.Len())
		s.f.mu.Unlock()
	}
	if s.give == nil {
		return operators.More, nil
	}
	ev.Batch = b.Retain()
	return operators.More, s.give(ev)
}

func (s *fragmentSink) Signal(_ context.Context, _ int, sig operators.Signal) (operators.Status, error) {
	switch sig.Kind {
	case operators.Flush:
		if s.give == nil {
			return operators.More, nil
		}
		kind := wire.Flush
		if sig.Preview {
			kind = wire.Preview
		}
		return operators.More, s.give(wire.Event{Kind: kind})
	case operators.Gap:
		s.f.mu.Lock()
		s.f.losses = sum(s.f.losses, []wire.Loss{{Cause: sig.Cause, N: sig.N}})
		s.f.mu.Unlock()
	}
	return operators.More, nil
}

func (s *fragmentSink) Close(context.Context, int) error { return nil }
