package uprobe

import (
	"context"
	"errors"
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/keeper"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/decode"
	"endoscope/probes/uprobe/program"
)

// acquire attaches the probes of s and routes its events to sink. On an error it undoes
// everything.
func (p *Provider) acquire(s *source, sink probes.Sink) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("uprobe: the provider is closed")
	}
	if s.stopped {
		return errors.New("uprobe: the source was stopped")
	}
	n := s.part.probes(s)
	for other := range p.active {
		n += other.part.probes(other)
	}
	if n > p.maxProbes(s.spec) {
		return p.tooMany(s.spec, s.resolution, n)
	}
	if s.loaded == nil {
		var err error
		if s.loaded, err = p.install(s); err != nil {
			return err
		}
	}
	err := p.attachAround(s, sink)
	if err != nil {
		p.release(s)
		if s.follower != nil {
			p.release(s.follower)
		}
	}
	return err
}

// attachAround attaches the probes of s, and those of its follower before and after them.
func (p *Provider) attachAround(s *source, sink probes.Sink) error {
	if f := s.follower; f != nil {
		if err := p.enlist(f, contextSink{sink, f.spec.Follows.Name}); err != nil {
			return err
		}
		if err := p.attachStage(f, onlyExits); err != nil {
			return err
		}
	}
	if err := p.enlist(s, sink); err != nil {
		return err
	}
	if err := p.attachAll(s, p.active[s]); err != nil {
		return err
	}
	if s.follower != nil {
		if err := p.beginContext(s.follower); err != nil {
			return err
		}
	}
	return p.activate(s)
}

// activate begins the query of s, whose probes are attached.
func (p *Provider) activate(s *source) error {
	in := p.active[s]
	if s.part == nil {
		if err := in.Arm(true); err != nil {
			return err
		}
	}
	if s.suspended.All || len(s.suspended.Threads) > 0 {
		if err := in.Suspend(s.suspended); err != nil {
			return err
		}
	}
	if s.options.Standby {
		return nil
	}
	return in.Open(true)
}

// enlist prepares the receiver of the events of s, whose programs are loaded. On an error the
// caller releases s.
func (p *Provider) enlist(s *source, sink probes.Sink) error {
	in := s.loaded
	s.loaded = nil
	if err := p.follow(s); err != nil {
		p.kernel.Remove(in)
		p.unfollow()
		return err
	}
	if p.reader == nil {
		p.reader = decode.Start(p.kernel.Ring)
	}
	p.active[s] = in
	// Probes are attached once there is a receiver for their events.
	s.sub = decode.NewSubscription(s.spec.Out.Types(), s.wants, sink, p.offset, p.reader.Executables, in)
	s.sub.Lateness = p.lateness(s.spec)
	if s.part != nil {
		switch {
		case s.spec.Samples():
			s.sub.Seldom = decode.SampleSeldom
		case s.spec.Partial.Pane == 0:
			s.sub.Seldom = decode.MostSeldom
		default:
			s.sub.Seldom = decode.Seldom
		}
	}
	if s.resolution.AreReported() {
		s.sub.Reported = decode.NewMethods(s.resolution.Selector, s.resolution.Running[0].Exe, s.resolution.Python, in)
		s.sub.Name(0, calls.Label{}) // label of gaps
	} else {
		for i, w := range s.resolution.Functions {
			s.sub.Name(uint32(i), w.Label)
		}
	}
	for k, f := range s.resolution.Inferred {
		s.sub.Name(uint32(len(s.resolution.Functions)+k), f.Label)
	}
	s.sub.SetReceivers(s.receivers)
	s.sub.Stacks, s.sub.ExeBefore = p.newStacks(s), p.exesBefore(s)
	s.sub.Shares = calls.SharesOf(s.resolution.Functions, s.resolution.Inferred)
	if a := in.Aggregator; a != nil {
		a.Sub, a.Reader = s.sub, p.reader
		a.Rows = program.NewPartialRows(s.spec.Partial, a.Code, s.spec.Out, s.resolution.Functions, s.resolution.Inferred)
		s.sub.Bound = a.Begins
		s.aggregates(a)
	}
	if slices.ContainsFunc(s.wants.Cols, calls.Column.IsContained) {
		// Rows may arrive after their processes have ended.
		if h := p.historyFor(s); h != nil {
			h.RecordContainers()
		}
		s.sub.Contained = len(s.spec.Target.Containers) > 0
		for _, q := range s.resolution.Running {
			process.ContainerOf(q.PID)
		}
	}
	if s.options.Record != nil {
		s.recaller = decode.StartRecaller(s.sub, s.options.Record)
	} else {
		p.reader.Subscribe(s.sub)
	}
	if err := in.FollowChildren(); err != nil {
		return plan.Errorf(s.spec.Start, s.spec.Stop, "the kernel refuses to report the starts of processes: %v", err)
	}
	return nil
}

// release frees what s uses in the kernel: it detaches the probes, reads the remaining
// events, updates the counters and unloads the programs. The caller holds Provider.mu.
func (p *Provider) release(s *source) error {
	in := p.active[s]
	if in == nil { // never attached, or the provider was closed
		return nil
	}
	in.Detach()
	if s.follower != nil {
		defer p.release(s.follower)
	}
	for _, one := range in.Leases {
		p.leases.Release(one)
	}
	p.reportMissedProcesses(s, in)
	p.reportReplaced(s, s.atEnd)
	left, err := in.EndAggregate()
	if s.recaller != nil {
		s.recaller.Stop()
	} else {
		p.reader.Unsubscribe(s.sub, left)
	}
	s.storeCounters(in, true)
	s.sub.CloseStacks()
	p.kernel.Remove(in)
	if s.following != nil {
		s.contexts.Close()
	}
	delete(p.active, s)
	p.unfollow()
	p.forgetHistory()
	if len(p.active) == 0 {
		p.reader.Stop()
		p.reader = nil
	}
	return err
}

// Load implements probes.Source. It loads the query's programs, which takes
// milliseconds, so that Start only has to attach them.
func (s *source) Load(ctx context.Context, o probes.Options) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("uprobe: the provider is closed")
	}
	keeper.Start() // while the programs are loaded
	s.options = o
	in, err := p.install(s)
	if err == nil {
		s.loaded = in
	}
	return err
}

// install loads the programs of s. The caller holds Provider.mu.
func (p *Provider) install(s *source) (*program.Installation, error) {
	if p.kernel == nil {
		c, err := p.compiled()
		if err != nil {
			return nil, err
		}
		k, err := program.New(p.o.RingBytes, p.o.MaxCalls, p.o.preallocates(), c)
		if err != nil {
			return nil, err
		}
		p.kernel = k
	}
	p.kernel.WarmUp.Begin()
	if s.follower != nil {
		if err := p.installFollower(s); err != nil {
			return nil, err
		}
	}
	if s.following == nil {
		return p.kernel.Install(s.setup())
	}
	var err error
	if s.contexts, err = p.kernel.NewContexts(); err != nil {
		return nil, err
	}
	in, err := p.kernel.Install(s.setup())
	if err != nil {
		s.contexts.Close()
	}
	return in, err
}

// unload undoes Load if its programs were not used.
func (p *Provider) unload(s *source) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unloadLocked(s)
	if s.follower != nil {
		p.unloadLocked(s.follower)
		s.follower.resolution.Modules.Close()
	}
}

// unloadLocked is unload without the follower of s; the caller holds Provider.mu.
func (p *Provider) unloadLocked(s *source) {
	if s.loaded == nil {
		return
	}
	if p.kernel != nil {
		p.kernel.Remove(s.loaded)
	} else { // the provider was closed
		s.loaded.Objects.Close()
	}
	s.loaded = nil
	if s.following != nil {
		s.contexts.Close()
	}
}
