package uprobe

import (
	"fmt"
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/selection"
)

// ability returns which gate operations the source supports, and why others are not.
func (s *source) ability() plan.Ability {
	var a plan.Ability
	switch {
	case s.spec.Stream == catalog.FunctionCall:
		a.Why = "a sequence of calls must be complete"
		a.Closed = "events of a sequence open no gates"
		return a
	case selection.OfMemory(s.spec):
		a.Why = "which of an allocator's calls is the outermost must be known"
		a.Closed = "memory is released before its row exists"
		return a
	case s.aggregation != nil:
		a.Why = "its calls are aggregated in the kernel"
		a.Closed = a.Why
		return a
	case s.filter.Program.Residual != nil:
		a.Closed = fmt.Sprintf("the condition %s is not tested in the kernel", s.filter.Program.Residual)
	default:
		a.Opens = true
	}
	a.Gate = plan.AtEntry
	return a
}

// Stats implements probes.Source. Calls ignored at a shut gate are included.
func (s *source) Stats() probes.Stats {
	p := s.provider
	p.mu.Lock()
	if in := p.active[s]; in != nil {
		s.storeCounters(in, false)
	}
	st := probes.Stats{Activity: s.activity, Waited: s.activity.Shut + s.ignoredCalls, Spent: s.pricing.spent(s.activity.Awaited)}
	p.mu.Unlock()
	price := s.price()
	for way := range st.Prices {
		st.Prices[way] = price
	}
	return st
}

// storeCounters stores the current counters, or the last ones. The caller holds Provider.mu.
func (s *source) storeCounters(in *program.Installation, last bool) {
	s.pricing.look(in, s.prices(), last)
	if c, err := in.Counters(&s.percpu); err == nil {
		armed, _ := program.Awaited(&c)
		s.activity = probes.Activity{Events: c.Offered, Shut: c.Shut - s.ignoredCalls, Awaited: armed}
	}
}

// detaches reports whether the source's probes may be detached for a while. Goroutines
// that end meanwhile would leave stale calls, and later calls would appear nested in
// them.
func (s *source) detaches() bool {
	return s.ability().Gate == plan.AtEntry && s.follower == nil && !slices.ContainsFunc(s.resolution.Landmarks, func(l calls.Landmark) bool { return l.Cookie&abi.GoRegisters != 0 })
}

// detach implements probes.Detach. Calls under way become unfinished.
func (s *source) detach() error {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	in := p.active[s]
	if in == nil || s.stopped {
		p.mu.Unlock()
		return nil
	}
	links := slices.Clone(in.Links)
	in.Links = nil
	p.mu.Unlock()
	attach.CloseAll(links) // slow; done without Provider.mu
	return nil
}

// attach implements probes.Attach.
func (s *source) attach() error {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped || len(in.Links) > 0 {
		return nil
	}
	in.Sweeper.Forget()
	if err := p.attachAll(s, in); err != nil {
		attach.CloseAll(in.Links) // all or none, so that attach can be retried
		in.Links = nil
		return err
	}
	return nil
}
