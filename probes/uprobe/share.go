package uprobe

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"endoscope/probes"
	"endoscope/probes/clock"
)

// Divide implements probes.Shareable. A call is before or after by its end.
func (s *source) Divide(begin func(at int64), done func(unfinished uint64)) error {
	s.mu.Lock()
	a := s.aggregator
	s.mu.Unlock()
	if a != nil {
		return a.divide(begin, done)
	}
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.stopped || p.active[s] == nil {
		return nil
	}
	p.reader.do(func() {
		begin(clock.Boot() + s.sub.offset)
		p.reader.drainAll()
		s.sub.flush()
		done(s.sub.unfinished())
	})
	return nil
}

// divide cuts where it changes to the other slot of states: partial rows are
// sums, so that whoever gets those from the cut on has the sum from the cut on.
func (a *aggregator) divide(begin func(at int64), done func(unfinished uint64)) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil
	}
	if a.pane != endless {
		// The pane that is under way is given in two halves. The second goes into
		// the other slot, where the next pane may have begun.
		if err := a.turnOver(clock.Boot()); err != nil {
			return err
		}
		a.publish(false)
		if err := a.settle(); err != nil {
			return err
		}
		if err := a.read(1-a.slot, a.begins+a.pane); err != nil {
			return err
		}
	}
	slot, pane := a.slot, a.begins
	a.reader.do(func() {
		// Here, so that events that find no slot are divided as those that do.
		at := clock.Boot()
		begin(at + a.offset)
		if a.pane == endless {
			a.advance(at)
		} else {
			a.advance(pane)
		}
	})
	return a.finish(slot, pane, a.pane != endless, func() { done(a.sub.unfinished()) })
}

// Identity implements probes.Shareable. A sequence begins and ends for all its
// functions at one instant, and can have one reader only.
func (s *source) Identity() string {
	if s.spec.Stream == FunctionCall {
		return ""
	}
	h := sha256.New()
	r := s.resolution
	fmt.Fprintln(h, s.links, s.wants, s.Describe(), s.Residual(), r.only, keyOf(r.members))
	for _, w := range r.wants {
		fmt.Fprintln(h, w.module.id, w.scope.key, w.scope.exe, w.site.Offset, w.site.Method, w.flags, w.returns, w.label)
		for _, x := range w.exits {
			fmt.Fprintln(h, x.Offset)
		}
	}
	for _, f := range r.inferred {
		fmt.Fprintln(h, f.module.id, f.entry, f.sum, f.label)
	}
	for _, g := range r.goexits {
		fmt.Fprintln(h, g.module.id, g.scope.key, g.site.Offset)
	}
	// A pid may be given to another process; names mean whoever bears them.
	for _, p := range r.running {
		if slices.Contains(s.spec.Target.PIDs, p.PID) {
			fmt.Fprintln(h, p.PID, p.StartTime)
		}
	}
	return string(h.Sum(nil))
}

var _ probes.Shareable = (*source)(nil)
