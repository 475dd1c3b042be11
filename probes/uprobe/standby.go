package uprobe

import (
	"errors"

	"endoscope/probes"
)

var _ probes.Standby = (*source)(nil)

// StandBy implements probes.Standby.
func (s *source) StandBy() { s.standby = true }

// Begin implements probes.Standby.
func (s *source) Begin() error {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return nil // its end has been told, or will be
	}
	if !s.standby {
		return errors.New("uprobe: the source does not stand by")
	}
	if err := in.open(true); err != nil {
		return err
	}
	if c, err := in.counters(&s.percpu); err == nil {
		s.overlooked = c.Shut
	}
	return nil
}

// Waited implements probes.Standby. Calls that meet a shut gate are overlooked, too.
func (s *source) Waited() (calls uint64, ns float64) {
	calls = s.Activity().Shut
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	return calls + s.overlooked, s.overlookedNs()
}

// overlookedNs is what a call costs that is overlooked: a mean over the
// functions, whose rates are not told apart.
func (s *source) overlookedNs() float64 {
	r, sum, n := s.resolution, 0.0, 0.0
	for _, w := range r.wants {
		if w.refused {
			continue
		}
		n++
		ns, _ := r.costs.of(priceCounted, w.site.Method)
		if w.returns == trapped && s.links != linkSession { // the return is trapped all the same
			ns, _ = r.costs.of(pricePair, w.site.Method)
		}
		sum += ns
		if len(w.exits) > 0 { // a call leaves by one of them
			ns, _ = r.costs.of(priceCounted, w.exits[0].Method)
			sum += ns
		}
	}
	return sum / max(n, 1)
}
