package stack

import (
	"fmt"

	"endoscope/probes"
)

// Divide implements probes.Shareable. Snapshots are not divided.
func (s *source) Divide(begin func(probes.Cut), done func(unfinished uint64)) error {
	divided := make(chan struct{})
	cut := func() {
		defer close(divided)
		begin(probes.Cut{At: s.clock()})
		done(0)
	}
	select {
	case s.between <- cut:
		<-divided
	case <-s.ended:
	}
	return nil
}

// Identity implements probes.Shareable.
func (s *source) Identity() string {
	id := "stack"
	for _, p := range s.pinned {
		id += fmt.Sprintf(" %d@%d", p.PID, p.StartTime)
	}
	return id
}

var _ probes.Shareable = (*source)(nil)
