package procfs

import (
	"context"
	"errors"
	"sync"
	"time"

	"endoscope/planner/plan"
	"endoscope/probes"
)

// demand produces its value on request (plan.Acquire.OnDemand). In between it
// only takes the readings that rates are computed from: one every half window,
// whose rows are dropped.
type demand struct {
	*source
	mu      sync.Mutex // guards the fields below
	sampler sampler
	sink    probes.Sink
	armed   bool
	done    chan struct{} // closed to stop keep
	wg      sync.WaitGroup
}

// leastWindow is the shortest window that is meaningful for the kernel's
// counters of CPU time, which count in 10 ms.
const leastWindow = 20 * time.Millisecond

// Info implements probes.Source. The value is produced on request: the source
// can be neither shared nor gated.
func (d *demand) Info() probes.Info {
	i := d.source.Info()
	i.Identity, i.OnDemand, i.Gateable, i.Ability = "", true, false, plan.Ability{}
	return i
}

// Control implements probes.Source.
func (d *demand) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	if _, ok := c.(probes.Sample); ok {
		return probes.Reply{}, d.sample()
	}
	return probes.Unsupported(c)
}

// Start takes the first reading for rates, and waits until they are meaningful.
func (d *demand) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.armed || d.done != nil {
		return errors.New("procfs: a source is started once")
	}
	sampler := d.make()
	if err := sampler.sample(d.clock(), d.rows); err != nil {
		sampler.close()
		return err
	}
	d.sampler, d.sink, d.armed, d.done = sampler, sink, true, make(chan struct{})
	if d.warmup > 1 {
		select {
		case <-time.After(leastWindow):
		case <-ctx.Done():
		}
		d.wg.Go(d.readPeriodically)
	}
	return nil
}

// readPeriodically takes the readings in between.
func (d *demand) readPeriodically() {
	tick := time.NewTicker(d.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-d.done:
			return
		}
		d.mu.Lock()
		if d.armed {
			d.rows.sink = nil
			_ = d.sampler.sample(d.clock(), d.rows) // Sample reports errors
		}
		d.mu.Unlock()
	}
}

// sample pushes the current value to the sink.
func (d *demand) sample() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.armed {
		return nil
	}
	d.rows.sink = d.sink
	if err := d.sampler.sample(d.clock(), d.rows); err != nil {
		return err
	}
	d.rows.flush()
	if d.rows.denied > 0 {
		d.sink.Count(denied, d.rows.denied)
		d.rows.denied = 0
	}
	return nil
}

// Stop implements probes.Source.
func (d *demand) Stop() error {
	d.mu.Lock()
	if !d.armed {
		d.mu.Unlock()
		return nil
	}
	d.armed = false
	close(d.done)
	d.mu.Unlock()
	d.wg.Wait()
	d.sampler.close()
	d.sink.End(nil)
	return nil
}
