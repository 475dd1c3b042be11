package uprobe

import (
	"errors"
	"fmt"
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// extend adds the functions of a module that was found to those of a source that has
// begun: their calls are kept with those of the others. How returns are observed is
// settled: where that is not possible the functions are refused.
func (s *source) extend(f *selection.Mapping) error {
	p, spec := s.provider, s.spec
	by := plan.TrapReturns
	if s.resolution.returns()[calls.AtExits] {
		by = plan.ExitReturns
	}
	r, err := resolve(spec, p.o.Match, &p.modules, calls.ValuesOf(spec), s.links, true, by, p.costs, func(_ plan.Target, _ []process.Process, sel *selection.Selector) (*selection.ModuleSet, error) {
		sel.Sizes = sizesBeside(spec, s)
		set := selection.NewModuleSet()
		if err := set.AddFound(f); err != nil {
			set.Close()
			return nil, err
		}
		return set, nil
	})
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			r.modules.Close()
		}
	}()
	if r.java() {
		return errors.New("its methods cannot be followed together with functions")
	}
	if !s.resolution.slots.Holds(r.slots) {
		return errors.New("it has its goroutines elsewhere than the others")
	}
	more := compileFilter(p.o.Match, p.offset, spec, s.values, r.wants)
	if !sameTests(s.filter, more) {
		return errOtherwise
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if s.stopped || in == nil {
		return errStopped
	}
	n := r.probes()
	for other := range p.active {
		n += other.resolution.probes()
	}
	if n > p.maxProbes(spec) {
		return p.tooMany(spec, r, n)
	}
	if len(r.wants) > in.room {
		return fmt.Errorf("more than %d functions would be added", maxExtension)
	}
	if err := s.add(in, r, more.facts); err != nil {
		return err
	}
	if kept = s.keepsFiles(); kept {
		s.resolution.modules.List = append(s.resolution.modules.List, r.modules.List...)
	}
	return p.follow(s)
}

// add attaches what was found, or nothing. Provider.mu is held.
func (s *source) add(in *installation, r *resolution, facts []uint64) error {
	own := s.resolution
	wants, landmarks, links, leases := len(own.wants), len(own.landmarks), slices.Clone(in.links), len(in.leases)
	own.wants = append(own.wants, r.wants...)
	s.filter.facts = append(s.filter.facts, facts...)
	for _, l := range r.landmarks {
		if !slices.ContainsFunc(own.landmarks, func(o calls.Landmark) bool { return o.Is(l) }) {
			own.landmarks = append(own.landmarks, l)
		}
	}
	s.provider.reader.do(func() {
		for i, w := range r.wants {
			s.sub.name(uint32(wants+i), w.Label)
		}
	})
	err := s.provider.attachFrom(s, in, wants, landmarks, 0)
	if err == nil {
		err = in.extend(len(own.wants))
	}
	if err == nil {
		in.room -= len(r.wants)
		return nil
	}
	attach.CloseAll(slices.DeleteFunc(in.links, func(l *attach.Link) bool { return slices.Contains(links, l) }))
	in.links = links
	for _, one := range in.leases[leases:] {
		s.provider.leases.Release(one)
	}
	in.leases = in.leases[:leases]
	own.wants, own.landmarks, s.filter.facts = own.wants[:wants], own.landmarks[:landmarks], s.filter.facts[:wants]
	return err
}

// sameTests reports whether the kernel tests the calls of both by the same programs.
func sameTests(a, b *filter) bool {
	text := func(f *filter) string {
		return fmt.Sprint(f.program.Entry, f.program.Return, textOf(f.program.Residual))
	}
	return text(a) == text(b)
}

// errOtherwise is of functions that cannot be added to others.
var errOtherwise = errors.New("its functions cannot be told apart as those of the others are")
