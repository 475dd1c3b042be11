package trigger

import (
	"context"
	"sync"
	"sync/atomic"

	"endoscope/planner"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/query"
)

// standby arms a new query for each activation. The query is prepared as soon
// as the previous one has begun, and waits with its probes attached, or only
// loaded. Only the end of the next query waits for the end of a query, since
// the kernel takes tens of milliseconds to detach.
type standby struct {
	q         *Acquirer
	plan      *plan.Query
	attached  bool                        // the next query waits with its probes attached
	next      atomic.Pointer[query.Query] // the query that waits; nil: none
	preparing sync.WaitGroup              // of next
	running   *query.Query                // nil: none
	rows      *publisher                  // of running
	ending    sync.WaitGroup              // of queries that were turned off or abandoned
}

func (s *standby) open(int64) bool { return false }

func (s *standby) shut() {}

func (s *standby) follow(w wanted) error {
	if s.attached && w.late != "" {
		s.attached = false
		s.ending.Go(s.next.Swap(nil).Abandon)
		s.prepareNext()
	}
	switch {
	case w.on && s.running == nil:
		return s.arm(w.since)
	case w.on:
		s.rows.number.Store(w.since.n) // it was turned off and on again meanwhile
	case s.running != nil:
		run := s.running
		s.running = nil
		run.End()
		s.ending.Wait()
		s.ending.Go(func() {
			<-run.Done
			s.settle(run)
		})
	}
	return nil
}

// arm starts the query that waits, and has the next one prepared.
func (s *standby) arm(since activation) (err error) {
	s.preparing.Wait()
	run := s.next.Swap(nil)
	if run == nil { // it could not be prepared: this reports the error
		if run, err = s.prepare(context.Background(), false); err != nil {
			return err
		}
	}
	rows := publish(run, s.q.t.Stream, s.q.act.Text)
	rows.number.Store(since.n)
	if err := s.q.t.BeginQuery(run); err != nil {
		return err
	}
	s.running, s.rows = run, rows
	s.q.busy.Add(1)
	s.q.t.armed(since)
	s.prepareNext()
	return nil
}

// prepareNext prepares the next query.
func (s *standby) prepareNext() {
	attached := s.attached
	s.preparing.Go(func() {
		if next, err := s.prepare(context.Background(), attached); err == nil {
			s.next.Store(next)
			s.q.signal() // its cost is to be monitored
		}
	})
}

// prepare returns a query that waits.
func (s *standby) prepare(ctx context.Context, attached bool) (*query.Query, error) {
	p := s.plan
	if attached {
		p = Unshared(p)
	}
	run, err := s.q.prepare(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := hold(ctx, run, attached); err != nil {
		run.Abandon()
		return nil, err
	}
	return run, nil
}

// hold has a prepared query wait, with its probes attached or only loaded.
func hold(ctx context.Context, run *query.Query, attached bool) error {
	if err := run.Refusal(); err != nil {
		return planner.Placed(err, run.Text)
	}
	if attached {
		return run.StandBy(ctx)
	}
	return run.Load(ctx)
}

// settle accounts for a query that has ended.
func (s *standby) settle(run *query.Query) {
	s.q.settle(run)
	s.q.busy.Add(-1)
}

func (s *standby) done() <-chan struct{} {
	if s.running == nil {
		return nil
	}
	return s.running.Done
}

func (s *standby) ended() bool {
	s.settle(s.running)
	s.running = nil
	return true
}

func (s *standby) waiting() (out []probes.Source) {
	if next := s.next.Load(); next != nil {
		for _, f := range next.Feeds {
			if f.Options.Standby {
				out = append(out, f.Source)
			}
		}
	}
	return out
}

func (s *standby) close() {
	if s.running != nil {
		s.q.t.cancel(s.running)
		s.settle(s.running)
	}
	s.preparing.Wait()
	if next := s.next.Load(); next != nil {
		next.Abandon()
	}
	s.ending.Wait()
}
