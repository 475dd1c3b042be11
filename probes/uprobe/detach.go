package uprobe

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes"
)

var _ probes.Detachable = (*source)(nil)

// Detachable implements probes.Detachable. Goroutines that end while nobody looks
// would leave calls behind that others seem to be in.
func (s *source) Detachable() bool {
	return s.Ability().Gate == plan.AtEntry && !slices.ContainsFunc(s.resolution.landmarks, func(l landmark) bool { return l.cookie&goRegisters != 0 })
}

// Detach implements probes.Detachable. Calls that are under way then are
// unfinished.
func (s *source) Detach() error {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	in := p.active[s]
	if in == nil || s.stopped {
		p.mu.Unlock()
		return nil
	}
	links := slices.Clone(in.links)
	in.links = nil
	p.mu.Unlock()
	closeLinks(links) // which takes long, and holds up nobody
	return nil
}

// Attach implements probes.Detachable.
func (s *source) Attach() error {
	s.flip.Lock()
	defer s.flip.Unlock()
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped || len(in.links) > 0 {
		return nil
	}
	in.sweeper.forget()
	if err := p.attachAll(s, in); err != nil {
		closeLinks(in.links) // all or none, so that it can be tried again
		in.links = nil
		return err
	}
	return nil
}
