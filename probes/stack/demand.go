package stack

import (
	"context"
	"errors"
	"sync"

	"endoscope/probes"
)

// demand takes a snapshot on request (plan.Acquire.OnDemand), and is idle otherwise.
type demand struct {
	*source
	mu        sync.Mutex // guards the following fields
	collector *collector
	sink      probes.Sink
	stopped   bool
}

// Info implements probes.Source. The rows go to the requester only; they are not
// shared.
func (d *demand) Info() probes.Info {
	i := d.source.Info()
	i.Identity, i.OnDemand = "", true
	return i
}

// Load does nothing; Start does all the work.
func (d *demand) Load(context.Context, probes.Options) error { return nil }

// Control implements probes.Source.
func (d *demand) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	if _, ok := c.(probes.Sample); ok {
		return probes.Reply{}, d.sample()
	}
	return probes.Unsupported(c)
}

// Start loads the programs and reads the files that the target executes.
func (d *demand) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.collector != nil || d.stopped {
		return errors.New("stack: a source is started once")
	}
	c, err := d.open(ctx)
	if err != nil {
		return err
	}
	sink, err = d.follow(ctx, sink)
	if err == nil {
		err = c.snapshotThreads(func(*observation) {})
	}
	if err != nil {
		c.close()
		return err
	}
	c.tally = tally{}
	d.collector, d.sink = c, sink
	d.rows.Push = sink.Push
	return nil
}

// sample passes the current stacks to the sink.
func (d *demand) sample() error {
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
	d.collector, d.stopped = nil, true
	d.mu.Unlock()
	err := d.unfollow()
	if c != nil {
		c.close()
		d.sink.End(nil)
	}
	return err
}
