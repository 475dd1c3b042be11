package server

import (
	"context"
	"testing"

	"endoscope/operators"
	"endoscope/operators/batch"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/trigger"
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
	leaf := &s.e.running()[0].Leaves[0]
	over := make(chan struct{})
	s.stop = func(*aggregator) { close(over) }
	leaf.Op = &refilling{leaf.Op, func() {
		if !trigger.Stopped(over) {
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
