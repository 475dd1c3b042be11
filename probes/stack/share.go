package stack

import (
	"fmt"

	"endoscope/probes"
)

// Divide implements probes.Shareable. Snapshots are not divided.
func (s *source) Divide(begin func(probes.Cut), done func()) error {
	divided := make(chan struct{})
	cut := func() {
		defer close(divided)
		begin(probes.Cut{At: s.clock()})
		done()
	}
	select {
	case s.between <- cut:
		s.alarm.ring()
	case <-s.ended:
		return nil
	}
	select {
	case <-divided:
	case <-s.ended:
	}
	return nil
}

// Unfinished implements probes.Shareable: samples take no time.
func (s *source) Unfinished(probes.Cut, probes.Cut) uint64 { return 0 }

// Identity implements probes.Shareable.
func (s *source) Identity() string {
	id := "stack"
	for _, p := range s.pinned {
		id += fmt.Sprintf(" %d@%d", p.PID, p.StartTime)
	}
	return id
}

var _ probes.Shareable = (*source)(nil)
