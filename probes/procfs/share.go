package procfs

import (
	"fmt"

	"endoscope/probes"
)

// Divide implements probes.Shareable. There is nothing between two samples; one
// that is just being taken is of before the cut, and may come after it.
func (s *source) Divide(begin func(probes.Cut), done func()) error {
	select {
	case <-s.ended:
	default:
		begin(probes.Cut{At: s.clock()})
		done()
	}
	return nil
}

// Unfinished implements probes.Shareable: samples take no time.
func (s *source) Unfinished(probes.Cut, probes.Cut) uint64 { return 0 }

// Identity implements probes.Shareable.
func (s *source) Identity() string {
	id := s.files
	for _, p := range s.pinned {
		id += fmt.Sprintf(" %d@%d", p.PID, p.StartTime)
	}
	return id
}

var _ probes.Shareable = (*source)(nil)
