package stack

import (
	"context"
	"errors"
	"sync"

	"endoscope/probes"
)

// demand takes a snapshot when it is asked for one (plan.Acquire.OnDemand), and
// does nothing in between.
type demand struct {
	*source
	mu        sync.Mutex // guards what follows
	collector *collector
	sink      probes.Sink
	over      bool
}

// Start loads the programs and reads the files that the target executes.
func (d *demand) Start(_ context.Context, sink probes.Sink) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.collector != nil || d.over {
		return errors.New("stack: a source is started once")
	}
	c, err := d.open()
	if err != nil {
		return err
	}
	if err := c.take(func(*observation) {}); err != nil {
		c.close()
		return err
	}
	c.tally = tally{}
	d.collector, d.sink = c, sink
	d.rows.Push = sink.Push
	return nil
}

// Sample gives the sink the stacks at this moment.
func (d *demand) Sample(context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.collector == nil {
		return nil
	}
	return d.snapshot(d.collector, d.sink)
}

// Stop ends the stream.
func (d *demand) Stop() error {
	d.mu.Lock()
	c := d.collector
	d.collector, d.over = nil, true
	d.mu.Unlock()
	if c != nil {
		c.close()
		d.sink.End(nil)
	}
	return nil
}
