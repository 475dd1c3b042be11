package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/testenv"
	"endoscope/server/query"
	"endoscope/server/trigger"
	"endoscope/server/wire"
)

// watched is a provider whose sources are watched, and may refuse to start.
type watched struct {
	probes.Provider
	prepared, stopped atomic.Int32
	refuses           bool
	starting          func() // called by Start; nil: nothing
}

func (p *watched) Prepare(ctx context.Context, spec *plan.Acquire) (probes.Source, error) {
	src, err := p.Provider.Prepare(ctx, spec)
	if err != nil {
		return nil, err
	}
	p.prepared.Add(1)
	return &watchedSource{Source: src, of: p}, nil
}

type watchedSource struct {
	probes.Source
	of *watched
	is atomic.Bool // stopped
}

func (s *watchedSource) Start(ctx context.Context, sink probes.Sink, o probes.Options) error {
	if s.of.starting != nil {
		s.of.starting()
	}
	if s.of.refuses {
		return errors.New("it does not start")
	}
	return s.Source.Start(ctx, sink, o)
}

func (s *watchedSource) Stop() error {
	if s.is.CompareAndSwap(false, true) {
		s.of.stopped.Add(1)
	}
	return s.Source.Stop()
}

// watch has an engine's sources of memory_usage and cpu_usage watched.
func watch(e *Engine) (memory, cpu *watched) {
	memory, cpu = &watched{Provider: e.providers["memory_usage"]}, &watched{Provider: e.providers["cpu_usage"]}
	e.providers["memory_usage"], e.providers["cpu_usage"] = memory, cpu
	return memory, cpu
}

// Whichever source does not start, all are stopped: those that were armed, and
// those whose turn did not come.
func TestFailedStartStopsAll(t *testing.T) {
	for _, first := range []bool{true, false} {
		e, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		memory, cpu := watch(e)
		memory.refuses, cpu.refuses = first, !first
		s, err := newSession(t.Context(), e, wire.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		const joined = "SELECT m.percent_used FROM SAMPLE(memory_usage, 50ms) m WINDOW JOIN SAMPLE(cpu_usage, 50ms) c WINDOW 100ms"
		for i, statement := range []string{joined, "EXPLAIN " + joined, "CREATE TRIGGER t ON (" + joined + ") WHEN TRUE BEGIN SELECT * FROM SAMPLE(cpu_usage, 1s) END"} {
			_, err := s.Execute(t.Context(), statement)
			if (err == nil) != (i == 1) {
				t.Errorf("%s: %v", statement, err)
			}
			for _, p := range []*watched{memory, cpu} {
				if made, stopped := p.prepared.Load(), p.stopped.Load(); made == 0 || stopped != made {
					t.Errorf("%s: of %d sources %d were stopped", statement, made, stopped)
				}
			}
		}
		s.Close()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

// To close the engine, or the session, ends a query that is being started just
// then, whether that succeeds or not; none begins afterwards.
func TestCloseWhileQueryStarts(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		for _, whole := range []bool{false, true} {
			e, err := New(Options{})
			if err != nil {
				t.Fatal(err)
			}
			s, err := newSession(t.Context(), e, wire.Options{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			closing := s.Close
			if whole {
				closing = e.Close
			}
			memory, _ := watch(e)
			closed := make(chan error, 1)
			memory.refuses = refuses
			memory.starting = func() {
				testenv.Alongside(t, func() { closed <- closing() }) // which waits for us
			}
			r, err := s.Execute(t.Context(), "SELECT * FROM SAMPLE(memory_usage, 50ms)")
			if (err != nil) != refuses {
				t.Errorf("it started with %v", err)
			}
			select {
			case err := <-closed:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(2 * time.Minute):
				t.Fatal("closing waits for a query that has ended, or never began")
			}
			if r != nil && !trigger.Stopped(r.(*query.Result).Query.Done) {
				t.Error("the query goes on")
			}
			if _, err := s.Execute(t.Context(), "SELECT * FROM SAMPLE(cpu_usage, 50ms)"); err == nil {
				t.Error("another one began")
			}
			s.Close()
			e.Close()
		}
	}
}

// What befalls a trigger's name while another trigger is being made of that name,
// which fails, befalls the one that had it before.
func TestFailedTriggerReleasesItsName(t *testing.T) {
	const other = "CREATE OR REPLACE TRIGGER t ON SAMPLE(cpu_usage, 20ms) WHEN TRUE BEGIN NOTIFY 'other' END"
	for _, meanwhile := range []string{"", "DROP TRIGGER t", other} {
		e, err := New(Options{})
		if err != nil {
			t.Fatal(err)
		}
		s, err := newSession(t.Context(), e, wire.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		execute(t, s, "CREATE TRIGGER t ON SAMPLE(cpu_usage, 20ms) WHEN TRUE BEGIN NOTIFY 'x' END")
		before := e.triggers.Get("t")
		memory, _ := watch(e)
		did := make(chan error, 1)
		memory.refuses = true
		memory.starting = func() {
			testenv.Alongside(t, func() { // which waits for us
				if meanwhile == "" {
					did <- e.Close()
					return
				}
				_, err := s.Execute(context.Background(), meanwhile)
				did <- err
			})
		}
		if _, err := s.Execute(t.Context(), "CREATE OR REPLACE TRIGGER t ON SAMPLE(memory_usage, 20ms) WHEN TRUE BEGIN NOTIFY 'x' END"); err == nil {
			t.Error("it was created")
		}
		select {
		case err := <-did:
			if err != nil {
				t.Errorf("%s: %v", meanwhile, err)
			}
		case <-time.After(2 * time.Minute):
			t.Fatalf("%q waits for a trigger that was never started", meanwhile)
		}
		if !trigger.Stopped(before.Over) {
			t.Errorf("%q: the trigger before goes on", meanwhile)
		}
		if now := e.triggers.Get("t"); (now != nil) != (meanwhile == other) || now == before {
			t.Errorf("%q: the name is of %v", meanwhile, now)
		}
		s.Close()
		e.Close()
	}
}
