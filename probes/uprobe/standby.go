package uprobe

import (
	"errors"

	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
)

// begin implements probes.Begin.
func (s *source) begin() error {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return nil // its end has been told, or will be
	}
	if !s.options.Standby {
		return errors.New("uprobe: the source does not stand by")
	}
	if err := in.Open(true); err != nil {
		return err
	}
	if c, err := in.Counters(&s.percpu); err == nil {
		s.overlooked = c.Shut
	}
	return nil
}

// overlookedNs is what a call costs that is overlooked: a mean over the
// functions, whose rates are not told apart.
func (s *source) overlookedNs() float64 {
	s.provider.mu.Lock()
	defer s.provider.mu.Unlock()
	r, sum, n := s.resolution, 0.0, 0.0
	for _, w := range r.wants {
		if w.Refused {
			continue
		}
		n++
		ns, _ := r.costs.Price(calls.PriceCounted, w.Site.Method)
		if w.Returns == calls.Trapped && s.links != attach.Session { // the return is trapped all the same
			ns, _ = r.costs.Price(calls.PricePair, w.Site.Method)
		}
		sum += ns
		if len(w.Exits) > 0 { // a call leaves by one of them
			ns, _ = r.costs.Price(calls.PriceCounted, w.Exits[0].Method)
			sum += ns
		}
	}
	return sum / max(n, 1)
}
