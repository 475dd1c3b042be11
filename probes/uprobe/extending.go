package uprobe

import (
	"errors"
	"fmt"
	"slices"

	"endoscope/planner/plan"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/attach"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/program"
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
	more := calls.CompileFilter(p.o.Match, p.offset, spec, s.values, r.wants)
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
	if len(r.wants) > in.Room {
		return fmt.Errorf("more than %d functions would be added", program.MaxExtension)
	}
	if err := s.add(in, r, more.Facts); err != nil {
		return err
	}
	if kept = s.keepsFiles(); kept {
		s.resolution.modules.List = append(s.resolution.modules.List, r.modules.List...)
	}
	return p.follow(s)
}

// add attaches what was found, or nothing. Provider.mu is held.
func (s *source) add(in *program.Installation, r *resolution, facts []uint64) error {
	own := s.resolution
	wants, landmarks, links, leases := len(own.wants), len(own.landmarks), slices.Clone(in.Links), len(in.Leases)
	own.wants = append(own.wants, r.wants...)
	s.filter.Facts = append(s.filter.Facts, facts...)
	for _, l := range r.landmarks {
		if !slices.ContainsFunc(own.landmarks, func(o calls.Landmark) bool { return o.Is(l) }) {
			own.landmarks = append(own.landmarks, l)
		}
	}
	s.provider.reader.Do(func() {
		for i, w := range r.wants {
			s.sub.Name(uint32(wants+i), w.Label)
		}
	})
	err := s.provider.attachFrom(s, in, wants, landmarks, 0)
	if err == nil {
		err = in.Extend(len(own.wants))
	}
	if err == nil {
		in.Room -= len(r.wants)
		return nil
	}
	attach.CloseAll(slices.DeleteFunc(in.Links, func(l *attach.Link) bool { return slices.Contains(links, l) }))
	in.Links = links
	for _, one := range in.Leases[leases:] {
		s.provider.leases.Release(one)
	}
	in.Leases = in.Leases[:leases]
	own.wants, own.landmarks, s.filter.Facts = own.wants[:wants], own.landmarks[:landmarks], s.filter.Facts[:wants]
	return err
}

// sameTests reports whether the kernel tests the calls of both by the same programs.
func sameTests(a, b *calls.Filter) bool {
	text := func(f *calls.Filter) string {
		return fmt.Sprint(f.Program.Entry, f.Program.Return, textOf(f.Program.Residual))
	}
	return text(a) == text(b)
}

// errOtherwise is of functions that cannot be added to others.
var errOtherwise = errors.New("its functions cannot be told apart as those of the others are")
