package uprobe

import (
	"slices"
	"sync"
	"time"

	"endoscope/probes"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
	"endoscope/probes/uprobe/slicing"
)

// pricing computes the average cost of calls of a source's functions. It is used
// concurrently by plan evaluation and by the detaching of probes.
type pricing struct {
	mu     sync.Mutex
	each   []probes.Price // by function
	hits   []uint64       // of each function, at the last look
	lately []uint64       // calls of each function between the last two looks
	at     time.Time      // of the last look
	per    []uint64

	// What the calls until the last look have cost, in ns: those of entries, and those of
	// returns if all of them were observed.
	open, returns float64
	calls         uint64
}

// price returns the mean price over the functions, weighted by their recent calls. Where
// calls count for the depth of others, or returns cannot be refused, a shut gate saves
// the row alone.
func (s *source) price() probes.Price {
	r := s.resolution
	p := s.pricing.mean(r.Functions, s.prices())
	if s.wants.Options&abi.UseDepth != 0 || s.links != attach.Session && slices.ContainsFunc(r.Functions, func(w calls.Function) bool { return w.Returns == calls.Trapped }) {
		p.Open, p.Return = p.Open+p.Return, 0
		p.Shut = p.Open
	}
	return p
}

// look counts the calls since the last look. Unless it is the last one, it does nothing if
// that is too recent for the number of functions. each has the prices by function.
func (p *pricing) look(in *program.Installation, each []probes.Price, last bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	functions := len(each)
	if now := time.Now(); last || now.Sub(p.at) >= max(time.Second/2, time.Duration(functions)*time.Millisecond) {
		p.at = now
	} else {
		return
	}
	if p.hits == nil {
		p.hits, p.lately = make([]uint64, functions), make([]uint64, functions)
	}
	hits, err := in.AllHits(&p.per)
	if err != nil {
		return
	}
	since, calls := make([]uint64, functions), uint64(0)
	for i := range since {
		since[i] = hits[i] - min(p.hits[i], hits[i])
		calls += since[i]
		p.hits[i] += since[i]
		p.open += float64(since[i]) * each[i].Open
		p.returns += float64(since[i]) * each[i].Return
	}
	p.calls += calls
	if calls > 0 { // without calls, keep the previous weights
		p.lately = since
	}
}

// spent returns what the calls have cost. Conditions at the entry leave some returns alone;
// which ones is not known.
func (p *pricing) spent(awaited uint64) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == 0 {
		return 0
	}
	return time.Duration(p.open + p.returns*min(1, float64(awaited)/float64(p.calls)))
}

// prices returns the price of a call, by function.
func (s *source) prices() []probes.Price {
	s.pricing.mu.Lock()
	defer s.pricing.mu.Unlock()
	r, p := s.resolution, &s.pricing
	if p.each == nil {
		for _, w := range r.Functions {
			p.each = append(p.each, r.Costs.Call(w, s.links))
		}
	}
	return p.each
}

// mean returns the price of a call, weighted by the recent calls of the functions; with
// equal weights if there were none. each has the prices by function.
func (p *pricing) mean(wants []calls.Function, each []probes.Price) (sum probes.Price) {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := uint64(0)
	for _, n := range p.lately {
		calls += n
	}
	weights := 0.0
	for i, x := range each {
		weight := 1.0
		if calls > 0 {
			weight = float64(p.lately[i])
		}
		if wants[i].Refused {
			continue
		}
		weights += weight
		sum.Open += weight * x.Open
		sum.Return += weight * x.Return
		sum.Row += weight * x.Row
		sum.Shut += weight * x.Shut
	}
	weights = max(weights, 1)
	return probes.Price{Open: sum.Open / weights, Return: sum.Return / weights, Row: sum.Row / weights, Shut: sum.Shut / weights}
}

// conclude says what was spent, from the time on when attaching began.
func (s *slicer) conclude() {
	end := s.cost(forUpkeep)
	c := end.since(s.came)
	always := 0
	for _, l := range s.links {
		always += len(l.functions)
	}
	observed := s.observed(end.net())
	strata := slicing.Report(observed, float64(end.since(s.begun).net()))
	t := slicing.Total{
		Share: s.account.Share, Used: max(float64(c.net()), s.account.Floor*float64(c.took)), Took: time.Duration(c.took),
		Probes: float64(c.hits()), Attaching: float64(c.engine[forAttaching]), Slicing: float64(c.engine[forSlices]), Upkeep: float64(c.engine[forUpkeep]),
		Always: always, Sliced: s.ledger.Functions(), Slices: s.slices, Attached: s.attached,
		Before: s.begun.at.Sub(s.came.at), Prepared: float64(s.prepared),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.was, s.said = strata, t.Remarks(); s.sliced != nil && s.always.spec.Samples() {
		s.said = append(s.said, slicing.SampleRemark(observed, s.ledger.Later(), s.missing))
	}
}

// observed returns how functions are observed, and with what result.
func (s *slicer) observed(progress int64) []slicing.Stratum {
	name := func(i int) string { return s.always.resolution.Functions[i].Label.Function }
	always := slicing.Stratum{Always: true}
	hits := s.in.PricedHits()
	for _, c := range s.links {
		for _, i := range c.functions {
			always.Functions, always.Hits = append(always.Functions, name(i)), always.Hits+hits[i]
			always.Spent += float64(hits[i]) * s.functions[i].Price
		}
	}
	list := []slicing.Stratum{always}
	if s.out != nil {
		hits = s.out.PricedHits()
	}
	for _, g := range s.groups {
		x := slicing.Stratum{Length: g.Length}
		for _, i := range g.Functions {
			x.Functions, x.Hits = append(x.Functions, name(i)), x.Hits+hits[i]
			x.Spent += float64(hits[i]) * s.functions[i].Price
			x.Slices, x.Share = s.ledger.Seen(i, progress)
		}
		list = append(list, x)
	}
	return list
}

// strata says how functions will be observed, or how they were.
func (s *slicer) strata() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.was != nil {
		return s.was
	}
	how := slicing.Divided
	switch {
	case s.sliced == nil:
		how = slicing.Limited
	case s.whole():
		how = slicing.Together
	}
	return slicing.Outlook(s.account.Share, s.account.Floor, how, s.always.part.pricesOf(s.always))
}

// remarks returns the lines for the footer, when the slicer has ended.
func (s *slicer) remarks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.said)
}
