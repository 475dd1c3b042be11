package stack

import (
	"context"

	"endoscope/probes"
)

// Control implements probes.Source. Samples have no duration, so none is unfinished.
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

// divide implements probes.Divide. Snapshots are not divided.
func (s *source) divide(begin func(probes.Cut), done func()) {
	divided := make(chan struct{})
	cut := func() {
		defer close(divided)
		begin(probes.Cut{At: s.clock()})
		done()
	}
	s.mu.Lock()
	runs := s.started && !s.stopped
	s.mu.Unlock()
	if !runs {
		return
	}
	select {
	case s.between <- cut:
		s.alarm.Ring()
	case <-s.ended:
		return
	}
	select {
	case <-divided:
	case <-s.ended:
	}
}
