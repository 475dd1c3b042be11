package uprobe

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"endoscope/probes"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
)

// Info implements probes.Source.
func (s *source) Info() probes.Info {
	i := s.describe()
	i.Identity = s.identity()
	return i
}

// describe is Info without the identity, which takes longer.
func (s *source) describe() probes.Info {
	return probes.Info{
		Sites: s.resolution.Sites(s.links, s.aggregation != nil), Notices: s.notices(), Refusal: s.refuses(), Residual: s.residual(),
		Live:       true, // calls happen whether or not anybody looks
		Aggregates: s.aggregation != nil, Aggregation: s.aggregation.Describe(),
		Suspends: s.wants.Options&abi.SendFrame != 0,
		Gateable: true, Ability: s.ability(), Detaches: s.detaches(),
		Standby: true, WaitNs: s.overlookedNs(),
	}
}

func (s *source) notices() []string {
	if s.estimate == "" {
		return s.resolution.Notices
	}
	return append(slices.Clone(s.resolution.Notices), s.estimate)
}

// refuses is why the source refuses to start because of its cost; nil if it does
// not.
func (s *source) refuses() error {
	if s.refusal == nil {
		return nil // not a nil of another type
	}
	return s.refusal
}

// Control implements probes.Source.
func (s *source) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c := c.(type) {
	case probes.Collect:
		if s.aggregation != nil {
			return r, s.collect()
		}
	case probes.Suspend:
		if s.wants.Options&abi.SendFrame != 0 {
			return r, s.suspend(c)
		}
	case probes.Begin:
		return r, s.begin()
	case probes.Detach, probes.Attach, probes.ProcessorTime:
		if s.detaches() {
			return s.controlProbes(c)
		}
	case probes.Divide:
		if s.identity() != "" {
			return r, s.divide(c.Begin, c.Done)
		}
	case probes.CountUnfinished:
		if s.identity() != "" {
			r.Unfinished = s.unfinished(c.From, c.Until)
			return r, nil
		}
	}
	return probes.Unsupported(c)
}

// controlProbes is Control of a source that detaches.
func (s *source) controlProbes(c probes.Command) (r probes.Reply, err error) {
	switch c.(type) {
	case probes.Detach:
		err = s.detach()
	case probes.Attach:
		err = s.attach()
	case probes.ProcessorTime:
		r.Used, r.Known = s.processorTime()
	}
	return r, err
}

// Info implements probes.Source: that of the first part. As long as nothing has come
// it is not known whether parts aggregate, and events that are not aggregated may
// come singly.
//
// A growing source is not shared, gated, detached or armed ahead: a part that comes
// later would not be as the others are.
func (g *growing) Info() probes.Info {
	i := probes.Info{Aggregates: g.aggregates()}
	if s := g.first(); s != nil {
		d := s.describe()
		i = probes.Info{Sites: d.Sites, Notices: slices.Clone(d.Notices), Refusal: d.Refusal, Aggregates: i.Aggregates, Aggregation: d.Aggregation}
	}
	i.Residual, i.Live, i.Suspends = g.residual, true, g.suspends()
	i.Notices = append(i.Notices, g.coming.Notices...)
	if said := calls.SaidNotice(g.spec); said != "" && len(g.coming.Notices) > 0 {
		i.Notices = append(i.Notices, said)
	}
	return i
}

func (g *growing) suspends() bool { return slices.Contains(g.cols, calls.ColFrame) }

// Load implements probes.Source: it is forwarded to the first part. Those that come
// later load when they start.
func (g *growing) Load(ctx context.Context, o probes.Options) error {
	if s := g.first(); s != nil {
		return s.Load(ctx, o)
	}
	return nil
}

// Control implements probes.Source. Collect and Suspend are combined: they are
// forwarded to all parts, and Suspend to those to come. All other commands are
// refused, see Info.
func (g *growing) Control(ctx context.Context, c probes.Command) (probes.Reply, error) {
	switch c := c.(type) {
	case probes.Collect:
		if g.aggregates() {
			return probes.Reply{}, g.each((*source).collect)
		}
	case probes.Suspend:
		if g.suspends() {
			g.mu.Lock()
			g.suspended = c
			g.mu.Unlock()
			return probes.Reply{}, g.each(func(s *source) error { return s.suspend(c) })
		}
	}
	return probes.Unsupported(c)
}

// aggregates is Info().Aggregates.
func (g *growing) aggregates() bool {
	if s := g.first(); s != nil {
		return s.aggregation != nil
	}
	return g.spec.Partial != nil
}

// Stats implements probes.Source: the sum of all parts. Prices are the first part's.
func (g *growing) Stats() (sum probes.Stats) {
	g.mu.Lock()
	parts := slices.Clone(g.parts)
	g.mu.Unlock()
	for i, s := range parts {
		st := s.Stats()
		if i == 0 {
			sum.Prices = st.Prices
		}
		sum.Events += st.Events
		sum.Shut += st.Shut
		sum.Awaited += st.Awaited
		sum.Waited += st.Waited
	}
	return sum
}

// collect implements probes.Collect.
func (s *source) collect() error {
	s.mu.Lock()
	a := s.aggregator
	s.mu.Unlock()
	if a == nil {
		return nil
	}
	return a.Collect()
}

// aggregates notes that a collects what the source's programs aggregate, and
// has it give panes when they are over.
func (s *source) aggregates(a *program.Aggregator) {
	s.mu.Lock()
	s.aggregator = a
	s.mu.Unlock()
	if a.Pane != program.Endless {
		go a.Run(s.state, s.fail)
	}
}

// fail ends the source.
func (s *source) fail(err error) {
	s.mu.Lock()
	s.failure = err
	s.mu.Unlock()
	s.Stop()
}

// begin implements probes.Begin.
func (s *source) begin() error {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return nil // its end has been told, or will be
	}
	if !s.options.Standby {
		return errors.New("uprobe: the source does not stand by")
	}
	if err := in.Open(true); err != nil {
		return err
	}
	if c, err := in.Counters(&s.percpu); err == nil {
		s.overlooked = c.Shut
	}
	return nil
}

// overlookedNs is what a call costs that is overlooked: a mean over the
// functions, whose rates are not told apart.
func (s *source) overlookedNs() float64 {
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	r, sum, n := s.resolution, 0.0, 0.0
	for _, w := range r.Functions {
		if w.Refused {
			continue
		}
		n++
		ns, _ := r.Costs.Price(calls.PriceCounted, w.Site.Method)
		if w.Returns == calls.Trapped && s.links != attach.Session { // the return is trapped all the same
			ns, _ = r.Costs.Price(calls.PricePair, w.Site.Method)
		}
		sum += ns
		if len(w.Exits) > 0 { // a call leaves by one of them
			ns, _ = r.Costs.Price(calls.PriceCounted, w.Exits[0].Method)
			sum += ns
		}
	}
	return sum / max(n, 1)
}

// processorTime implements probes.ProcessorTime. It asks the processes' own clocks, of which
// each takes a system call and no file.
func (s *source) processorTime() (used time.Duration, known bool) {
	for _, p := range s.resolution.Running {
		var t unix.Timespec
		if unix.ClockGettime(processClock(p.PID), &t) != nil {
			return 0, false // it has ended
		}
		used += time.Duration(t.Nano())
	}
	return used, len(s.resolution.Running) > 0
}

// processClock is the clock of the processor time that a process has used
// (include/linux/posix-timers.h: MAKE_PROCESS_CPUCLOCK).
func processClock(pid int) int32 {
	const cpuClockSched = 2
	return int32(^pid)<<3 | cpuClockSched
}

// suspend implements probes.Suspend for a sequence with frames: calls that begin
// from now on are ignored, all or those on threads of these names. Those that were
// given are followed to their end. Before Start it is remembered.
func (s *source) suspend(c probes.Suspend) error {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	s.suspended = c
	in := p.active[s]
	if in == nil || s.stopped {
		return nil
	}
	return in.Suspend(c)
}
