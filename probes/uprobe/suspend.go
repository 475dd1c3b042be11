package uprobe

import "endoscope/probes"

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
