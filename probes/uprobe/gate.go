package uprobe

import (
	"fmt"

	"github.com/cilium/ebpf"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes"
	"endoscope/probes/bpf"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/selection"
)

// ability is what the source can do about gates.
func (s *source) ability() plan.Ability {
	var a plan.Ability
	switch {
	case s.spec.Stream == catalog.FunctionCall:
		a.Why = "a sequence of calls must not have holes"
		a.Closed = "events of a sequence open no gates"
		return a
	case selection.OfMemory(s.spec):
		a.Why = "which of an allocator's calls is the outermost must be known"
		a.Closed = "memory is released before its row is there"
		return a
	case s.aggregation != nil:
		a.Why = "its calls are aggregated in the kernel"
		a.Closed = a.Why
		return a
	case s.filter.program.Residual != nil:
		a.Closed = fmt.Sprintf("the condition %s is not tested in the kernel", s.filter.program.Residual)
	default:
		a.Opens = true
	}
	a.Gate = plan.AtEntry
	return a
}

// Stats implements probes.Source. Calls that meet a shut gate are ignored, too.
func (s *source) Stats() probes.Stats {
	p := s.provider
	p.mu.Lock()
	if in := p.active[s]; in != nil {
		s.note(in)
	}
	st := probes.Stats{Activity: s.activity, Waited: s.activity.Shut + s.overlooked}
	p.mu.Unlock()
	price := s.price()
	for way := range st.Prices {
		st.Prices[way] = price
	}
	return st
}

// note remembers what has happened so far. Provider.mu is held.
func (s *source) note(in *installation) {
	s.pricing.look(in, len(s.resolution.wants))
	if c, err := in.counters(&s.percpu); err == nil {
		armed, _ := awaited(&c)
		s.activity = probes.Activity{Events: c.Offered, Shut: c.Shut - s.overlooked, Awaited: armed}
	}
}

// useGates prepares programs for the gates that they pass and open.
func (k *kernel) useGates(g probes.Gates, spec *ebpf.CollectionSpec, options *uint32, replace map[string]*ebpf.Map) error {
	replace[bpf.FunctionMapGates] = k.unused[bpf.FunctionMapGates]
	if g.Set == nil {
		return nil
	}
	replace[bpf.FunctionMapGates] = g.Set.Map()
	spec.Maps[bpf.FunctionMapGates].MaxEntries = g.Set.Map().MaxEntries()
	if g.Own != nil {
		*options |= abi.Gated
		if err := spec.Variables[bpf.FunctionVarOwnGate].Set(uint32(g.Own.Index)); err != nil {
			return err
		}
	}
	var index, within [probes.MaxOpened]uint64
	for i, o := range g.Opens {
		index[i], within[i] = uint64(o.Gate.Index), uint64(o.Within)
	}
	if err := spec.Variables[bpf.FunctionVarOpens].Set(uint32(len(g.Opens))); err != nil {
		return err
	}
	if err := spec.Variables[bpf.FunctionVarOpenedGates].Set(index); err != nil {
		return err
	}
	return spec.Variables[bpf.FunctionVarOpenedWithin].Set(within)
}
