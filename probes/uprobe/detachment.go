package uprobe

import (
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// detaches reports whether the source's probes may be detached for a while. Goroutines
// that end meanwhile would leave stale calls, and later calls would appear nested in
// them.
func (s *source) detaches() bool {
	return s.ability().Gate == plan.AtEntry && !slices.ContainsFunc(s.resolution.Landmarks, func(l calls.Landmark) bool { return l.Cookie&abi.GoRegisters != 0 })
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
