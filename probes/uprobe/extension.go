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
	"endoscope/probes/uprobe/resolve"
	"endoscope/probes/uprobe/selection"
)

// extend adds the functions of a newly mapped module to a source that has begun, so that
// their calls share its state. How returns are observed is fixed by then: functions for
// which that is not possible are refused.
func (s *source) extend(f *selection.Mapping) error {
	p, spec := s.provider, s.specFor(f.Process.PID)
	by := plan.TrapReturns
	if s.resolution.ReturnKinds()[calls.AtExits] {
		by = plan.ExitReturns
	}
	r, err := resolve.Resolve(spec, p.o.Match, p.modulesFor(spec), calls.ValuesOf(spec), s.links, true, by, p.costs, func(_ plan.Target, _ []process.Process, sel *selection.Selector) (*selection.ModuleSet, error) {
		sel.Sizes = sizingWith(spec, s)
		set := selection.NewModuleSet()
		if err := set.AddFound(f); err != nil {
			set.Close()
			return nil, err
		}
		return set, nil
	}, p.placedIn)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			r.Modules.Close()
		}
	}()
	if r.AreReported() {
		return errors.New("its methods cannot be followed together with functions")
	}
	if !s.resolution.Slots.Holds(r.Slots) {
		return errors.New("it has its goroutines elsewhere than the others")
	}
	more := calls.CompileFilter(p.o.Match, p.offset, spec, s.values, r.Functions)
	if !sameTests(s.filter, more) {
		return errOtherwise
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	in := p.active[s]
	if s.stopped || in == nil {
		return errStopped
	}
	n := r.Probes()
	for other := range p.active {
		n += other.resolution.Probes()
	}
	if n > p.maxProbes(spec) {
		return p.tooMany(spec, r, n)
	}
	if len(r.Functions) > in.Room {
		return fmt.Errorf("more than %d functions would be added", program.MaxExtension)
	}
	if err := s.add(in, r, more.Facts); err != nil {
		return err
	}
	if kept = s.keepsFiles(); kept {
		s.resolution.Modules.List = append(s.resolution.Modules.List, r.Modules.List...)
	}
	return p.follow(s)
}

// add attaches all functions of r, or none. The caller holds Provider.mu.
func (s *source) add(in *program.Installation, r *resolve.Resolution, facts []uint64) error {
	own := s.resolution
	wants, landmarks, links, leases := len(own.Functions), len(own.Landmarks), slices.Clone(in.Links), len(in.Leases)
	own.Functions = append(own.Functions, r.Functions...)
	s.filter.Facts = append(s.filter.Facts, facts...)
	for _, l := range r.Landmarks {
		if l.Switches() && in.Objects.Programs[l.Program] == nil {
			continue // the query's programs do not follow coroutines
		}
		if !slices.ContainsFunc(own.Landmarks, func(o calls.Landmark) bool { return o.Is(l) }) {
			own.Landmarks = append(own.Landmarks, l)
		}
	}
	s.provider.reader.Do(func() {
		for i, w := range r.Functions {
			s.sub.Name(uint32(wants+i), w.Label)
		}
	})
	err := s.provider.attachFrom(s, in, wants, landmarks, 0)
	if err == nil {
		err = in.Extend(len(own.Functions))
	}
	if err == nil {
		in.Room -= len(r.Functions)
		return nil
	}
	attach.CloseAll(slices.DeleteFunc(in.Links, func(l *attach.Link) bool { return slices.Contains(links, l) }))
	in.Links = links
	for _, one := range in.Leases[leases:] {
		s.provider.leases.Release(one)
	}
	in.Leases = in.Leases[:leases]
	own.Functions, own.Landmarks, s.filter.Facts = own.Functions[:wants], own.Landmarks[:landmarks], s.filter.Facts[:wants]
	return err
}

// sameTests reports whether both filters compile to the same tests in the kernel.
func sameTests(a, b *calls.Filter) bool {
	text := func(f *calls.Filter) string {
		return fmt.Sprint(f.Program.Entry, f.Program.Return, resolve.TextOf(f.Program.Residual))
	}
	return text(a) == text(b)
}

// errOtherwise is returned for functions that cannot be added to others.
var errOtherwise = errors.New("its functions require another way to distinguish callers than the others")
