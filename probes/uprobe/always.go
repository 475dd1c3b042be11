package uprobe

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"endoscope/probes/clock"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/slicing"
)

// chunkLinks are the links of some functions that are observed all the time.
type chunkLinks struct {
	functions []int
	links     []*attach.Link
	retired   bool         // some of them are not any more
	left      bool         // they are replaced
	moving    *atomic.Bool // they were moved from other links, which are not closed yet
}

// attachAlways attaches functions that are observed all the time, in links of their own. Those
// that were moved come from links for which moving is true as long as they are not closed.
func (s *slicer) attachAlways(which []int, moving *atomic.Bool) (made []*chunkLinks, err error) {
	for part := range slices.Chunk(which, s.chunk) {
		s.always.part.set(true, part...)
		links, err := s.always.attachSome(part)
		if err != nil {
			return nil, err
		}
		s.always.keepLinks(links)
		s.attached += len(part)
		made = append(made, &chunkLinks{functions: part, links: links, moving: moving})
	}
	s.links = append(s.links, made...)
	return made, nil
}

// detachAlways undoes attachAlways.
func (s *slicer) detachAlways(c *chunkLinks) {
	s.always.part.set(false, c.functions...)
	s.links = slices.DeleteFunc(s.links, func(x *chunkLinks) bool { return x == c })
	s.close(s.always.dropLinks(c.links))
}

// retire compares what functions cost that are observed all the time, since the last look, with
// their part of the budget of that time, or of least if that is longer. The dearest, until the
// others are within it, are not observed all the time any more: their calls cease to count at
// once, and leave detaches them.
func (s *slicer) retire(d spending, least time.Duration) (gone []int) {
	net := max(float64(d.net()), s.account.Floor*float64(d.took))
	allowed := alwaysShare * max(s.account.Share*net, s.account.Earning()*float64(least))
	before := s.counted
	s.counted = s.in.PricedHits()
	if float64(d.always) <= excess*allowed+float64(fair) {
		return nil
	}
	hits := s.counted
	cost := func(i int) float64 { return float64(hits[i]-before[i]) * s.functions[i].Price }
	var candidates []int
	sum := 0.0
	for _, c := range s.links {
		for _, i := range c.functions {
			if hits[i] > before[i] && s.always.part.has(i) {
				candidates = append(candidates, i)
				sum += cost(i)
			}
		}
	}
	if sum <= excess*allowed+float64(fair) { // the others are being detached
		return nil
	}
	slices.SortFunc(candidates, func(a, b int) int { return cmp.Compare(cost(b), cost(a)) })
	for left := sum; left > 0.7*allowed && len(gone) < len(candidates); {
		i := candidates[len(gone)]
		left -= cost(i)
		gone = append(gone, i)
		s.in.Retire(i)
		s.always.part.set(false, i)
		s.functions[i].Rate = float64(hits[i]-before[i]) / net
	}
	for _, c := range s.links {
		c.retired = c.retired || slices.ContainsFunc(c.functions, func(i int) bool { return !s.always.part.has(i) })
	}
	return gone
}

// fair is an excess that is too small to be judged, ns.
const fair = 50 * time.Microsecond

// leave detaches the functions that were retired. The others in their links are attached by
// new links first, so that no call of theirs is missed. Links that are new themselves wait
// until the old ones are closed.
func (s *slicer) leave() error {
	var rest, gone []int
	var old []*attach.Link
	for _, c := range s.links {
		if !c.retired || c.moving != nil && c.moving.Load() {
			continue
		}
		for _, i := range c.functions {
			if s.always.part.has(i) {
				rest = append(rest, i)
			} else {
				gone = append(gone, i)
			}
		}
		old, c.left = append(old, c.links...), true
	}
	if len(gone) == 0 {
		return nil
	}
	s.engine.charge(forUpkeep, s.sharers)
	defer func() { s.engine.charge(forAttaching, s.sharers) }()
	closing := new(atomic.Bool)
	closing.Store(true)
	for _, i := range gone {
		s.leaving[i] = closing
	}
	for _, i := range rest {
		s.in.BeginMove(i)
	}
	if _, err := s.attachAlways(rest, closing); err != nil {
		return err
	}
	s.links = slices.DeleteFunc(s.links, func(c *chunkLinks) bool { return c.left })
	if s.sliced == nil { // the returns of calls under way will be missing
		if err := s.always.markGap(); err != nil {
			return err
		}
	}
	wait := attach.BeginCloseAll(s.always.dropLinks(old))
	s.closing.Go(func() {
		wait()
		for _, i := range rest {
			s.in.EndMove(i)
		}
		closing.Store(false)
		s.wake() // leave may go on
	})
	return nil
}

// measureSliced measures how often functions are called that are observed in slices. Those that
// have become rare are observed all the time from then on.
func (s *slicer) measureSliced() error {
	s.stale = false
	hits := s.out.PricedHits()
	changed := s.load.Changed(s.account.Load())
	var calm []int
	for k := range s.groups {
		for _, i := range s.groups[k].Functions {
			if s.seen[i] <= 0 {
				continue
			}
			f := &s.functions[i]
			before := f.Dilation()
			n := float64(hits[i] - s.entered[i])
			f.Rate = n / s.seen[i]
			changed = changed || max(f.Dilation(), before) > 2*max(min(f.Dilation(), before), slicing.MostDilation/10)
			if atMost := (n + 3) / s.seen[i] * f.Price; atMost < rare {
				calm = append(calm, i)
			}
			s.seen[i] = 0
		}
	}
	s.entered = hits
	if s.whole() { // all remain in slices, of another length
		s.pack(s.groups[0].Functions)
		return nil
	}
	calm, err := s.promote(calm)
	if err != nil {
		return err
	}
	if changed || len(calm) > 0 {
		return s.regroup(nil)
	}
	return nil
}

// promote attaches functions that are observed all the time from now on, as long as there is
// room for them in the budget, and returns them.
func (s *slicer) promote(which []int) (promoted []int, err error) {
	room := s.account.Share*alwaysShare/2 - s.dilation
	retired := map[int]bool{} // and not detached yet
	for _, c := range s.links {
		if !c.retired {
			continue
		}
		for _, i := range c.functions {
			if !s.always.part.has(i) {
				retired[i] = true
			}
		}
	}
	for _, i := range which {
		if left := s.leaving[i]; retired[i] || left != nil && left.Load() || !s.ledger.Sliced(i) || s.functions[i].Dilation() > room {
			continue
		}
		room -= s.functions[i].Dilation()
		s.in.Retire(i) // until all are attached
		promoted = append(promoted, i)
	}
	if len(promoted) == 0 {
		return nil, nil
	}
	s.engine.charge(forUpkeep, s.sharers)
	if _, err := s.attachAlways(promoted, nil); err != nil {
		return nil, err
	}
	now := s.cost(forAttaching)
	for _, i := range promoted {
		s.in.Recall(i)
		s.ledger.End(i, now.net())
	}
	return promoted, nil
}

// regroup begins a series of slices, with more functions, without those that are observed all
// the time.
func (s *slicer) regroup(more []int) error {
	all := slices.Clone(more)
	for _, g := range s.groups {
		for _, i := range g.Functions {
			if !s.always.part.has(i) {
				all = append(all, i)
			}
		}
	}
	s.pack(all)
	s.series++
	now := s.cost(forUpkeep)
	for _, i := range all {
		s.ledger.Begin(i, s.series, now.net())
	}
	return nil
}

// roundTime is how long a round of slices is to take at most.
const roundTime = 3 * time.Second

// pack divides functions into groups, and begins a round. Where there are no slices, it leaves them out.
func (s *slicer) pack(all []int) {
	if s.sliced == nil {
		s.leaveOut(all)
		return
	}
	if s.whole() {
		s.load = s.account.Load()
		s.groups, s.order = []slicing.Group{slicing.Whole(s.functions, all, s.load, s.fixed)}, nil
		return
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Compare(s.functions[a].Dilation(), s.functions[b].Dilation())
	})
	s.load = s.account.Load()
	s.groups, s.order = slicing.Pack(s.functions, all, s.load, s.fixed, s.account.ForSlices()*float64(roundTime)), nil
}

// leaveOut says that calls of functions are not recorded from now on.
func (s *slicer) leaveOut(which []int) {
	names := make([]string, 0, len(which))
	for _, i := range which {
		names = append(names, s.always.resolution.Functions[i].Label.Function)
	}
	s.always.options.Record.LeaveOut(names, clock.Now())
}

// markGap has each sequence of a part have a gap now.
func (s *source) markGap() error {
	p := s.provider
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if in == nil || s.stopped {
		return errStopped
	}
	return in.MarkGap(clock.Boot())
}
