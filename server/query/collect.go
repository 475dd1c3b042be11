package query

import (
	"context"
	"errors"
	"sync"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/flow"
)

// collector collects partial aggregates from the sources before a result is
// shown that is not the last one. Each source is asked in a goroutine of its
// own, so that the runner still takes rows and notices a request to stop.
type collector struct {
	sources []*flow.Feed
	panes   []bool     // by source: it delivers panes by itself when they are complete
	result  chan error // of a round; buffered for one
	asking  sync.WaitGroup
}

func newCollector(feeds []*flow.Feed) *collector {
	c := &collector{result: make(chan error, 1)}
	for _, f := range feeds {
		if f.Aggregates() {
			c.sources = append(c.sources, f)
			c.panes = append(c.panes, f.Spec.Partial.Pane > 0)
		}
	}
	return c
}

// ask begins a round. The round is over when result yields an error or nil:
// then all earlier events are in the queue. There is at most one round at a
// time.
func (c *collector) ask() {
	c.asking.Go(func() {
		errs := make([]error, len(c.sources))
		var all sync.WaitGroup
		for i, s := range c.sources {
			if c.panes[i] {
				continue // a window is shown only at its end
			}
			all.Go(func() { errs[i] = s.Control(probes.Collect{}) })
		}
		all.Wait()
		c.result <- errors.Join(errs...)
	})
}

// settle removes from the plan the aggregates that were offered to sources and
// refused, so that EXPLAIN shows what is executed.
func (q *Query) settle() {
	alone := map[plan.Node]*plan.Acquire{}
	for _, f := range q.Feeds {
		if f.Spec.Partial != nil && !f.Aggregates() {
			c := *f.Spec
			c.Partial = nil
			alone[f.Spec] = &c
			f.Spec = &c
		}
	}
	if len(alone) == 0 {
		return
	}
	p := *q.Plan
	p.Root = plan.TransformNodes(p.Root, func(n plan.Node) plan.Node {
		if a := alone[n]; a != nil {
			return a
		}
		return n
	})
	q.Plan = &p
}

// showing is what a loop has to show, and what waits for a round of the
// collector.
type showing struct {
	tick, preview bool // waits for the round in progress
	asking        bool // a round is in progress
	late          bool // a tick came during the round; it waits for the next
	precision     bool // after the round it is checked whether results are known well enough
}

// tickDue is called when an interval of EMIT EVERY ends.
func (r *runner) tickDue(ctx context.Context) error {
	switch {
	case len(r.collector.sources) == 0:
		if err := r.drainQueue(ctx); err != nil { // the rows of the interval
			return err
		}
		return r.tick(ctx)
	case !r.Life.May(stepCollect): // the query's end collects and shows the result
	case r.show.asking:
		r.show.late = true
	default:
		r.show.tick = true
		r.ask()
	}
	return nil
}

// previewDue is called when a preview of the result is due. A preview may be
// skipped until the next.
func (r *runner) previewDue(ctx context.Context) error {
	switch {
	case !r.Life.May(stepCollect):
	case len(r.collector.sources) == 0:
		return r.preview(ctx)
	case !r.show.asking:
		r.show.preview = true
		r.ask()
	}
	return nil
}

func (r *runner) ask() {
	r.show.asking = true
	r.collector.ask()
}

// collected is called when a round is over. It shows the results that waited
// for it.
func (r *runner) collected(ctx context.Context, err error) error {
	s := r.show
	r.show = showing{}
	if err != nil || !r.Life.May(stepCollect) {
		return err
	}
	if err := r.drainQueue(ctx); err != nil {
		return err
	}
	if s.tick {
		err = r.tick(ctx)
	} else if s.preview {
		err = r.preview(ctx)
	}
	if err == nil && s.precision {
		err = r.checkPrecision()
	}
	if err == nil && s.late {
		err = r.tickDue(ctx)
	}
	return err
}
