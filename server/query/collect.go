package query

import (
	"context"
	"errors"
	"sync"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/server/flow"
)

// collector asks the sources that aggregate for what they have, before a result
// is shown that is not the last one. They are asked in goroutines of their own,
// so that the runner still takes what they give, and hears when it is told to
// stop.
type collector struct {
	sources []*flow.Feed
	panes   []bool     // by source: it gives them when they are over
	result  chan error // of a round; has room for it
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

// ask begins a round. It is over when result has an error or nil: then all that
// happened before is in the queue. There is one round at a time.
func (c *collector) ask() {
	c.asking.Go(func() {
		errs := make([]error, len(c.sources))
		var all sync.WaitGroup
		for i, s := range c.sources {
			if c.panes[i] {
				continue // nothing is shown of a window before its end
			}
			all.Go(func() { errs[i] = s.Control(probes.Collect{}) })
		}
		all.Wait()
		c.result <- errors.Join(errs...)
	})
}

// settle takes out of the plan the aggregates that sources were offered and do
// not run, so that it says what is done.
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

// showing is what a loop has to show, and what waits for a round.
type showing struct {
	tick, preview bool // wait for the round that is under way
	asking        bool // there is one
	late          bool // a tick has come since it began, and waits for the next
}

// tickDue is called when an interval of EMIT EVERY is over.
func (r *runner) tickDue(ctx context.Context) error {
	switch {
	case len(r.collector.sources) == 0:
		if err := r.drainQueue(ctx); err != nil { // what came in the interval
			return err
		}
		return r.tick(ctx)
	case !r.Life.May(stepCollect): // the end collects, and shows it
	case r.show.asking:
		r.show.late = true
	default:
		r.show.tick = true
		r.ask()
	}
	return nil
}

// previewDue is called when a display wants the result so far. A display can
// wait for the next time.
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

// collected is called when a round is over, and shows what it was for.
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
	if err == nil && s.late {
		err = r.tickDue(ctx)
	}
	return err
}
