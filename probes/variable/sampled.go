package variable

import (
	"context"
	"fmt"
	"time"

	"endoscope/probes"
)

// sampled is a source of samples.
type sampled struct{ *source }

// sampleNs is the approximate cost of reading a variable, paid by us and not by
// the process.
const sampleNs = 700

// Info implements probes.Source.
func (s *sampled) Info() probes.Info { return s.info(s.readSites()) }

func (s *source) readSites() []probes.Site {
	var sites []probes.Site
	for _, name := range s.names {
		sites = append(sites, probes.Site{Provider: "variable", Function: name, Method: "memory", Kind: "process_vm_readv", CostNs: sampleNs, Estimated: true})
	}
	return sites
}

// Start samples from now on.
func (s *sampled) Start(ctx context.Context, sink probes.Sink, _ probes.Options) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		sink.End(nil)
		return nil
	}
	s.begin(ctx, sink, s.run)
	return nil
}

// run samples at start + k·Every.
func (s *sampled) run(ctx context.Context, sink probes.Sink) error {
	start := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for k := int64(1); ; k++ {
		due := start.Add(time.Duration(k) * s.spec.Every)
		for wait := time.Until(due); wait > 0; wait = time.Until(due) {
			timer.Reset(min(wait, rescan))
			select {
			case <-timer.C:
				sink.Watermark(s.clock() + s.rows.Offset())
			case <-s.stop:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if late := int64(time.Since(due) / s.spec.Every); late > 0 {
			sink.Lost(overrun, uint64(late))
			k += late
		}
		if !s.refresh(time.Now(), sink) {
			return nil
		}
		s.sample(sink)
		sink.Watermark(s.clock() + s.rows.Offset())
		select {
		case <-s.stop:
			return nil
		default:
		}
	}
}

// sample pushes a row for each variable.
func (s *source) sample(sink probes.Sink) {
	failed, cut := uint64(0), uint64(0)
	for _, one := range s.subjects {
		for _, v := range one.variables {
			value, is := v.read(one.memory)
			if is == unknown || is == unreadable || is == present && v.form.unread(value) {
				failed++
			}
			if value.cut {
				cut++
			}
			if is == unknown {
				continue
			}
			s.rows.Put(observation{time: s.clock(), subject: one, name: v.name, module: v.module, value: value})
		}
	}
	s.rows.Flush()
	if failed > 0 {
		sink.Lost(unread, failed)
	}
	if cut > 0 {
		sink.Count(cutTexts, cut)
	}
}

// demand samples on request (plan.Acquire.OnDemand), and is idle in between.
type demand struct {
	*source
	sink probes.Sink
}

// Info implements probes.Source.
func (d *demand) Info() probes.Info {
	i := d.info(d.readSites())
	i.OnDemand = true
	return i
}

// Control implements probes.Source.
func (d *demand) Control(_ context.Context, c probes.Command) (probes.Reply, error) {
	if _, ok := c.(probes.Sample); !ok {
		return probes.Unsupported(c)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sink != nil && !d.stopped {
		d.refresh(time.Now(), d.sink)
		d.sample(d.sink)
	}
	return probes.Reply{}, nil
}

// Start implements probes.Source; there is nothing to start.
func (d *demand) Start(_ context.Context, sink probes.Sink, _ probes.Options) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sink != nil || d.stopped {
		return fmt.Errorf("variable: a source is started once")
	}
	d.sink = sink
	d.rows.Push = sink.Push
	return nil
}

// Stop implements probes.Source.
func (d *demand) Stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.stopped {
		d.stopped = true
		d.free()
		if d.sink != nil {
			d.sink.End(nil)
		}
	}
	return nil
}
