package server

import (
	"context"
	"slices"
	"testing"
	"time"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/flow"
	"endoscope/server/wire"
)

// torrent is an aggregator that gives single calls, and the next one while the
// operators have the one before: their queue is never empty until it is stopped.
type torrent struct {
	*aggregator
	e *Engine
}

func (s *torrent) Prepare(ctx context.Context, spec *plan.Acquire) (probes.Source, error) {
	_, err := s.aggregator.Prepare(ctx, spec)
	return s, err
}

func (s *torrent) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	leaf := &s.e.running()[0].leaves[0]
	over := make(chan struct{})
	s.stop = func(*aggregator) { close(over) }
	leaf.Op = &refilling{leaf.Op, func() {
		if !stopped(over) {
			s.call()
		}
	}}
	_ = s.aggregator.Start(ctx, sink, o)
	s.call()
	return nil
}

// refilling calls back for every batch.
type refilling struct {
	operators.Operator
	next func()
}

func (o *refilling) Push(ctx context.Context, port int, b *batch.Batch) (operators.Status, error) {
	o.next()
	return o.Operator.Push(ctx, port, b)
}

func torrential(t *testing.T) *session {
	a := &torrent{aggregator: &aggregator{declines: true}}
	s := sessionOver(t, a.aggregator, wire.Options{})
	a.e = s.e
	s.e.providers["function_start"] = a
	return s
}

// A query whose sources are faster than its operators ends when its time is up.
func TestOverloadedQueryEnds(t *testing.T) {
	r := execute(t, torrential(t), "SELECT COUNT(*) FROM function_start WHERE pid = 1 FOR 20ms")
	if got, err := shown(t, r, func(int) {}); err != nil || got == "" {
		t.Errorf("%q, %v", got, err)
	}
}

// So does one that is asked to, and until then it shows what it is to show.
func TestOverloadedQueryShowsAndStops(t *testing.T) {
	r := execute(t, torrential(t), "SELECT COUNT(*) FROM function_start WHERE pid = 1 EMIT EVERY 5ms")
	results := 0
	_, err := shown(t, r, func(n int) {
		if results = n; n == 3 {
			r.Stop()
		}
	})
	if err != nil || results < 3 {
		t.Errorf("%d results, %v", results, err)
	}
}

// A result of an interval has what came in it, if that was queued while the
// runner was busy.
func TestTickTakesWhatIsQueued(t *testing.T) {
	var got []string
	op := &said{say: func(s string) { got = append(got, s) }}
	q := flow.NewQueue(10)
	r := &runner{query: &query{q: q, collector: &collector{}, leaves: []graph.Leaf{{Op: op}}, started: time.Now()}, every: time.Second}
	q.Push(flow.Item{Batch: batch.New(nil)}, false)
	if err := r.tickDue(t.Context()); err != nil || !slices.Equal(got, []string{"rows", "signal"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// said is an operator that says what it is given.
type said struct {
	operators.Operator
	say func(string)
}

func (o *said) Push(context.Context, int, *batch.Batch) (operators.Status, error) {
	o.say("rows")
	return operators.More, nil
}

func (o *said) Signal(context.Context, int, operators.Signal) (operators.Status, error) {
	o.say("signal")
	return operators.More, nil
}
