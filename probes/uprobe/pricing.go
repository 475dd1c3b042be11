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

// pricing is what the calls of a source's functions cost on average. What
// evaluates plans and what detaches probes ask for it by turns.
type pricing struct {
	mu     sync.Mutex
	each   []probes.Price // by function
	hits   []uint64       // of each function, when they were last looked at
	lately []uint64       // of each, between the last two looks
	at     time.Time      // of the last look
	per    []uint64
}

// price is a mean over the functions, each as often as it was called lately. Where calls count for the depth of others, or returns
// cannot be refused, a shut gate saves the row alone.
func (s *source) price() probes.Price {
	r := s.resolution
	p := s.pricing.mean(r.Functions, func(w calls.Function) probes.Price { return r.Costs.Call(w, s.links) })
	if s.wants.Options&abi.UseDepth != 0 || s.links != attach.Session && slices.ContainsFunc(r.Functions, func(w calls.Function) bool { return w.Returns == calls.Trapped }) {
		p.Open, p.Return = p.Open+p.Return, 0
		p.Shut = p.Open
	}
	return p
}

// look counts what was called since the last look, if that was long enough ago
// for the number of functions.
func (p *pricing) look(in *program.Installation, functions int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.at) >= max(time.Second/2, time.Duration(functions)*time.Millisecond) {
		p.at = now
	} else {
		return
	}
	if p.hits == nil {
		p.hits, p.lately = make([]uint64, functions), make([]uint64, functions)
	}
	since, calls := make([]uint64, functions), uint64(0)
	for i := range since {
		n := in.Hits(uint32(i), &p.per)
		since[i] = n - p.hits[i]
		calls += since[i]
		p.hits[i] = n
	}
	if calls > 0 { // else they say more who called before
		p.lately = since
	}
}

// mean is the price of a call of the functions, as they were called lately; of
// all alike, if they were not.
func (p *pricing) mean(wants []calls.Function, of func(calls.Function) probes.Price) (sum probes.Price) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.each == nil {
		for _, w := range wants {
			p.each = append(p.each, of(w))
		}
	}
	calls := uint64(0)
	for _, n := range p.lately {
		calls += n
	}
	weights := 0.0
	for i, x := range p.each {
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
