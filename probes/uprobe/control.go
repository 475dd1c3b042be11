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

// describe returns Info without the identity, which is slow to compute.
func (s *source) describe() probes.Info {
	return probes.Info{
		Sites: s.allSites(), Notices: s.notices(), Refusal: s.refuses(), Residual: s.residual(),
		Live:       s.spec.Settings.Recall == 0, // calls happen whether or not they are observed
		Aggregates: s.aggregation != nil, Aggregation: s.aggregation.Describe(),
		Suspends: s.wants.Options&abi.SendFrame != 0,
		Gateable: true, Ability: s.ability(), Detaches: s.detaches(),
		Standby: true, WaitNs: s.ignoredCallNs(),
	}
}

// sites returns Info.Sites. The list of 5,000 functions takes a millisecond to make, and
// Info is asked several times for each query.
func (s *source) sites() []probes.Site {
	s.listing.Lock()
	defer s.listing.Unlock()
	r := s.resolution
	if n := len(r.Functions) + len(r.Landmarks); s.listed == nil || n != s.described {
		s.listed, s.described = slices.Clip(r.Sites(s.links, s.aggregation != nil)), n
	}
	return s.listed
}

func (s *source) notices() []string {
	out := slices.Clone(s.resolution.Notices)
	if s.follower != nil {
		out = append(out, s.follower.notices()...)
	}
	if s.estimate != "" {
		out = append(out, s.estimate)
	}
	return out
}

// refuses returns the error with which the source refuses to start because of its cost,
// or nil.
func (s *source) refuses() error {
	if s.refusal == nil {
		return nil // an untyped nil
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

// controlProbes implements Control for a source whose probes can be detached.
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

// Info implements probes.Source. It returns the info of the first part. Until there is
// one, it is unknown whether parts aggregate, and events that are not aggregated may
// arrive one at a time.
//
// A growing source is not shared, gated, detached or armed ahead: a part added later
// would differ from the others.
func (g *growing) Info() probes.Info {
	i := probes.Info{Aggregates: g.aggregates()}
	if s := g.first(); s != nil {
		d := s.describe()
		i = probes.Info{Sites: d.Sites, Notices: slices.Clone(d.Notices), Refusal: d.Refusal, Aggregates: i.Aggregates, Aggregation: d.Aggregation}
	}
	i.Residual, i.Live, i.Suspends = g.residual, true, g.suspends()
	i.Notices = append(i.Notices, g.pending.Notices...)
	if said := calls.AssumedTypesNotice(g.spec); said != "" && len(g.pending.Notices) > 0 {
		i.Notices = append(i.Notices, said)
	}
	return i
}

func (g *growing) suspends() bool { return slices.Contains(g.cols, calls.ColFrame) }

// Load implements probes.Source. It loads the first part. Later parts load when they
// start.
func (g *growing) Load(ctx context.Context, o probes.Options) error {
	if s := g.first(); s != nil {
		return s.Load(ctx, o)
	}
	return nil
}

// Control implements probes.Source. Collect and Suspend are forwarded to all parts, and
// Suspend also to later ones. All other commands are refused, see Info.
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

// aggregates returns Info().Aggregates.
func (g *growing) aggregates() bool {
	if s := g.first(); s != nil {
		return s.aggregation != nil
	}
	return g.spec.Partial != nil
}

// Stats implements probes.Source. It returns the sum over all parts, with the prices of
// the first.
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
		sum.Spent += st.Spent
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

// aggregates sets the aggregator that collects the states of the source's programs, and
// starts its collection of panes.
func (s *source) aggregates(a *program.Aggregator) {
	s.mu.Lock()
	s.aggregator = a
	s.mu.Unlock()
	if a.Pane != program.Endless {
		go a.Run(s.state, s.fail)
	}
}

// fail stops the source with an error.
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
		return nil // its end has been reported, or will be
	}
	if !s.options.Standby {
		return errors.New("uprobe: the source does not stand by")
	}
	in.CountChildren()
	if err := in.Open(true); err != nil {
		return err
	}
	if c, err := in.Counters(&s.percpu); err == nil {
		s.ignoredCalls = c.Shut
	}
	return nil
}

// ignoredCallNs returns the cost of an ignored call in ns: the mean over the functions,
// without weighting by their call rates.
func (s *source) ignoredCallNs() float64 {
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	r, sum, n := s.resolution, 0.0, 0.0
	for _, w := range r.Functions {
		if w.Refused {
			continue
		}
		n++
		ns, _ := r.Costs.Price(calls.PriceCounted, w.Site.Method)
		if w.Returns == calls.Trapped && s.links != attach.Session { // the kernel traps the return nevertheless
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

// processorTime implements probes.ProcessorTime. It reads the CPU clock of each process,
// which takes one system call and opens no file.
func (s *source) processorTime() (used time.Duration, known bool) {
	for _, p := range s.resolution.Running {
		var t unix.Timespec
		if unix.ClockGettime(processClock(p.PID), &t) != nil {
			return 0, false // the process has ended
		}
		used += time.Duration(t.Nano())
	}
	return used, len(s.resolution.Running) > 0
}

// processClock returns the id of a process's CPU-time clock
// (include/linux/posix-timers.h: MAKE_PROCESS_CPUCLOCK).
func processClock(pid int) int32 {
	const cpuClockSched = 2
	return int32(^pid)<<3 | cpuClockSched
}

// suspend implements probes.Suspend for a sequence with frames: new calls are ignored,
// all of them or those on threads with the given names. Calls already reported are
// followed to their end. A command before Start is stored and applied then.
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
