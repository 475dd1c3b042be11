package query

import (
	"context"
	"time"

	"endoscope/operators"
	"endoscope/operators/graph"
	"endoscope/planner/plan"
	"endoscope/probes/clock"
)

// runner is the state of one loop.
type runner struct {
	*Query
	open    int // number of leaves that have not ended
	targets int // number of these that observe the processes of a target
	ended   []bool
	drained bool // the plan needs no more rows
	every   time.Duration
	ticks   int64
	show    showing
	timers  timers
}

func (q *Query) loop(ctx context.Context) error {
	r := &runner{Query: q, ended: make([]bool, len(q.Feeds)), every: plan.EmitEvery(q.Plan.Root)}
	for _, f := range q.Feeds {
		if f.Asked == nil {
			r.open++
			if f.AboutTarget() {
				r.targets++
			}
		}
	}
	if err := q.Graph.StartValues(ctx); err != nil {
		return err
	}
	// With no rows to come, there are only results at intervals.
	standing := r.open == 0 && r.every > 0 && len(q.Graph.Standing) > 0
	if standing {
		q.Leaves = append(q.Leaves, q.Graph.Standing...)
	} else if err := closeAll(ctx, q.Graph.Standing); err != nil {
		return err
	}
	timers := &r.timers
	defer timers.stop()
	if q.Plan.For > 0 {
		timers.deadline = time.NewTimer(time.Until(q.started.Add(q.Plan.For)))
	}
	if r.every > 0 {
		timers.tick = time.NewTimer(r.every)
	}
	if q.Live > 0 && plan.HasFinal(q.Plan.Root) {
		timers.preview = time.NewTicker(q.Live)
	}
	if q.Graph.HasPrecision() {
		timers.precision = time.NewTicker(precisionInterval)
	}
	stop := q.stop
	r.out.Stop, r.out.Deadline, r.out.Halt = q.stop, timers.deadlineC(), r.halt
	for r.open > 0 || standing && r.Life.Phase() == PhaseRunning {
		if err := r.drainQueue(ctx); err != nil {
			return err
		}
		if r.open == 0 && !standing {
			break
		}
		select {
		case <-q.queue.Ready:
		case <-timers.deadlineC():
			r.halt()
		case <-stop:
			stop = nil
			r.halt()
		case <-timers.tickC():
			if err := r.tickDue(ctx); err != nil {
				return err
			}
		case <-timers.previewC():
			if err := r.previewDue(ctx); err != nil {
				return err
			}
		case <-timers.precisionC():
			r.precisionDue()
		case err := <-q.collector.result:
			if err = r.collected(ctx, err); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.beginEnd()
	r.out.Live.Store(false) // no more rows that waiting could lose
	// An interval that ends together with the query counts, and those that the loop was late for.
	if r.every > 0 && q.Plan.For > 0 && q.Plan.For%r.every == 0 && time.Since(q.started) >= q.Plan.For {
		for r.ticks < int64(q.Plan.For/r.every) {
			if err := r.tick(ctx); err != nil {
				return err
			}
		}
	}
	return closeAll(ctx, q.Leaves)
}

func closeAll(ctx context.Context, leaves []graph.Leaf) error {
	for _, l := range leaves {
		if err := l.Op.Close(ctx, l.Port); err != nil {
			return err
		}
	}
	return nil
}

// halt stops the sources, once; their Ends arrive through the queue.
func (r *runner) halt() {
	if r.beginEnd() {
		r.out.Live.Store(false)
		r.disarm(false)
	}
}

// drainQueue passes to the operators the items that are queued when it is
// called. Later items wait until the loop has checked its timers and requests
// to stop: if sources are faster than operators, the queue is never empty.
func (r *runner) drainQueue(ctx context.Context) error {
	for n := r.queue.Round(); n > 0; n-- {
		it, ok := r.queue.Pop()
		if !ok {
			return nil
		}
		if ctx.Err() != nil {
			if it.Batch != nil {
				it.Batch.Release()
			}
			return ctx.Err()
		}
		leaf := r.Leaves[it.Leaf]
		switch {
		case it.End:
			if it.Err != nil && !(r.drained && !r.Feeds[it.Leaf].Live) { // after the rows that were wanted nothing matters
				return it.Err
			}
			if !r.ended[it.Leaf] {
				r.ended[it.Leaf] = true
				r.open--
				if r.Feeds[it.Leaf].AboutTarget() {
					if r.targets--; r.targets == 0 {
						r.halt() // the other sources were acquired for the target's sake
					}
				}
			}
		case it.Batch != nil:
			if r.drained {
				it.Batch.Release()
				continue
			}
			op, port := leaf.Op, leaf.Port
			if it.Partial != nil {
				op, port = leaf.Partial, 0
			}
			st, err := op.Push(ctx, port, it.Batch)
			it.Batch.Release()
			if err != nil {
				return err
			}
			if st != operators.More {
				r.drained = true
				for _, f := range r.Feeds {
					f.Enough()
				}
				r.halt()
			}
		case it.Fault != nil:
			r.Feeds[it.Leaf].Charge(it.Fault)
		default:
			if !r.drained {
				if _, err := leaf.Op.Signal(ctx, leaf.Port, it.Signal); err != nil {
					return err
				}
			}
		}
	}
	r.queue.Wake()
	return nil
}

// signal pushes a signal into every leaf.
func (r *runner) signal(ctx context.Context, s operators.Signal) error {
	for _, l := range r.Leaves {
		if _, err := l.Op.Signal(ctx, l.Port, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) tick(ctx context.Context) error {
	r.ticks++
	if r.timers.tick != nil {
		r.timers.tick.Reset(time.Until(r.started.Add(time.Duration(r.ticks+1) * r.every)))
	}
	return r.signal(ctx, operators.Signal{Kind: operators.Tick, Time: r.began + r.ticks*int64(r.every)})
}

func (r *runner) preview(ctx context.Context) error {
	r.out.Preview = true
	defer func() { r.out.Preview = false }()
	return r.signal(ctx, operators.Signal{Kind: operators.Tick, Time: clock.Now(), Preview: true})
}

// timers are the clocks of a loop; absent ones never fire.
type timers struct {
	deadline, tick *time.Timer
	preview        *time.Ticker
	precision      *time.Ticker // ERROR WITHIN
}

func (t *timers) deadlineC() <-chan time.Time { return timerC(t.deadline) }

func (t *timers) tickC() <-chan time.Time { return timerC(t.tick) }

func timerC(t *time.Timer) <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.C
}

func (t *timers) previewC() <-chan time.Time {
	if t.preview == nil {
		return nil
	}
	return t.preview.C
}

func (t *timers) precisionC() <-chan time.Time {
	if t.precision == nil {
		return nil
	}
	return t.precision.C
}

func (t *timers) stop() {
	if t.precision != nil {
		t.precision.Stop()
	}
	if t.deadline != nil {
		t.deadline.Stop()
	}
	if t.tick != nil {
		t.tick.Stop()
	}
	if t.preview != nil {
		t.preview.Stop()
	}
}
