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
