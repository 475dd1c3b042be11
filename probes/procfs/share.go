package procfs

import (
	"context"

	"endoscope/probes"
)

// Control implements probes.Source. Samples have no duration, so none is
// unfinished.
func (s *source) Control(_ context.Context, c probes.Command) (r probes.Reply, err error) {
	switch c := c.(type) {
	case probes.Divide:
		s.divide(c.Begin, c.Done)
		return r, nil
	case probes.CountUnfinished:
		return r, nil
	}
	return probes.Unsupported(c)
}

// divide implements probes.Divide. A sample that is being taken belongs to
// before the cut, and may arrive after it.
func (s *source) divide(begin func(probes.Cut), done func()) {
	s.mu.Lock()
	runs := s.started && !s.stopped
	s.mu.Unlock()
	if !runs {
		return
	}
	select {
	case <-s.ended:
	default:
		begin(probes.Cut{At: s.clock()})
		done()
	}
}
