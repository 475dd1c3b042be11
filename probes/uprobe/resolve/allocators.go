package resolve

import (
	"slices"

	"endoscope/planner/catalog"
	"endoscope/planner/plan"
	"endoscope/probes/codesite"
	"endoscope/probes/elf"
	"endoscope/probes/uprobe/selection"
)

// allocatorTrap reports whether the return of an allocator's function may be trapped.
// Nothing is thrown or unwound through the functions of C, nor through operators that
// release memory: they run no callbacks and are no cancellation points. reason says
// why a trap is unsafe.
func allocatorTrap(sym *elf.Module, i int) (safe bool, reason string) {
	f := sym.Function(i)
	if selection.IsOperator(&f) && !selection.Allocator(&f).Releases() {
		return codesite.In(sym).ReturnTrap(i)
	}
	return codesite.In(sym).ReturnTrapOfNoexcept(i)
}

// allocatorExits returns the exits of a function that allocates, and the exits of the
// functions that it tail-calls: they return the address. A tail call to another
// allocator's function counts as a call of that function: nothing is returned at such
// an exit. reason says why the exits are unknown.
func (r *resolver) allocatorExits(sym *elf.Module, i int, exits []codesite.Site) (all []codesite.Site, reason string) {
	f := sym.Function(i)
	a := selection.Allocator(&f)
	if !a.Allocates() {
		all = slices.Clone(exits)
		for k := range all {
			all[k].RetvalReady = !codesite.In(sym).LeavesTo(all[k], selection.IsAllocator)
		}
		return all, ""
	}
	if f.Lang == elf.Go || codesite.In(sym).CallsAny(i, selection.IsAllocator) {
		return exits, ""
	}
	seen := map[int]bool{i: true}
	for n := 0; n < len(exits); n++ {
		s := exits[n]
		if s.RetvalReady {
			all = append(all, s)
			continue
		}
		target, ok := codesite.In(sym).TailTarget(s)
		if !ok || len(seen) > maxTails {
			return nil, "it leaves by a jump to a function that is not observed, which returns the address"
		}
		if seen[target] {
			continue
		}
		seen[target] = true
		more, err := codesite.In(sym).ExitSitesFor(target, codesite.Need{Value: true, Prices: r.costs.Sites()})
		if err != nil {
			return nil, "it leaves by a jump to " + sym.Function(target).Name + ", which " + err.Error()
		}
		exits = append(exits, more...)
	}
	return all, ""
}

// maxTails bounds the number of functions followed through tail calls.
const maxTails = 8

// noAllocator returns the error for modules without an allocator.
func (r *resolver) noAllocator(opened []*elf.Module) *plan.Error {
	e := plan.Errorf(r.spec.Start, r.spec.Stop, "no functions that %s are known in %s", map[string]string{catalog.Allocation: "allocate memory", catalog.Deallocation: "release memory"}[r.spec.Stream], r.where())
	if r.spec.Stream == catalog.Deallocation && slices.ContainsFunc(opened, func(m *elf.Module) bool { return m.HasGo() }) {
		return e.WithHint("Go's garbage collector releases memory without calls that could be observed")
	}
	return e.WithHint("malloc and its like are looked for in all modules of the target that are loaded, operators new and delete, and Go's mallocgc")
}
