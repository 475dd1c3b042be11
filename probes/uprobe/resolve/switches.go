package resolve

import (
	"fmt"
	"strings"

	"endoscope/planner/plan"
	"endoscope/probes/bpf"
	"endoscope/probes/codesite"
	"endoscope/probes/process"
	"endoscope/probes/uprobe/abi"
	"endoscope/probes/uprobe/calls"
	"endoscope/probes/uprobe/selection"
)

// switchingModules are the modules of the target whose code switches between stacks.
type switchingModules []switchingModule

type switchingModule struct {
	module   *selection.Module
	switches []codesite.Switch
}

// maxSearched limits the code of libraries that are searched for switches, in bytes. The
// modules whose functions are monitored are searched in any case.
const maxSearched = 16 << 20

// followsCoroutines reports whether the query needs the calls of each coroutine's stack
// separately.
func (r *resolver) followsCoroutines() bool {
	if !r.returns || !calls.Nests(r.spec) {
		return false
	}
	for _, w := range r.wants {
		if w.Flags&abi.GoRegisters == 0 {
			return true
		}
	}
	return false
}

// findSwitches finds the switches in the target's modules, those of set and others. The
// modules returned that are not in set have open files.
func (r *resolver) findSwitches(set *selection.ModuleSet, running []process.Process) (found switchingModules) {
	all, err := selection.Find(r.spec.Target, running, &selection.Selector{Marked: true})
	if err != nil {
		return nil // the module of a function is searched as part of set
	}
	if err := all.AddLibraries(all, func(string) bool { return true }); err != nil {
		all.Close()
		return nil
	}
	keeps := map[*selection.Module]bool{}
	defer func() {
		for _, m := range all.List {
			if !keeps[m] {
				m.File.Close()
			}
		}
	}()
	var libc []switchingModule
	usesLibc := false
	for _, m := range all.List {
		own := set.ByFile[m.ID]
		if own == nil && !worthSearching(m) {
			continue
		}
		sym, err := r.cache.Open(m.File, m.Name())
		if err != nil {
			continue
		}
		code := codesite.In(sym)
		s := switchingModule{m, code.Switches()}
		if own != nil {
			s.module = own
		}
		if selection.IsLibc(m.Name()) {
			libc = append(libc, s)
		} else {
			usesLibc = usesLibc || code.SwitchesStacks()
			if len(s.switches) > 0 {
				found = append(found, s)
			}
		}
		sym.Close()
	}
	if usesLibc {
		found = append(found, libc...)
	}
	if !found.resume() {
		return nil
	}
	for _, s := range found {
		keeps[s.module] = true
	}
	return found
}

// close closes the files of modules that are not in set.
func (f switchingModules) close(set *selection.ModuleSet) {
	for _, s := range f {
		if set.ByFile[s.module.ID] != s.module {
			s.module.File.Close()
		}
	}
}

// worthSearching reports whether a library may switch stacks: not the run-time support of
// languages and the loader, nor what is very large.
func worthSearching(m *selection.Module) bool {
	for _, prefix := range []string{"ld-linux", "libgcc_s.", "libstdc++.", "libm.", "libpthread.", "libdl.", "linux-vdso"} {
		if strings.HasPrefix(m.Name(), prefix) {
			return false
		}
	}
	st, err := m.File.Stat()
	return err == nil && st.Size() <= maxSearched
}

// resume reports whether any switch can leave a stack that is resumed later. Without
// one, the others only leave calls.
func (f switchingModules) resume() bool {
	for _, s := range f {
		for _, w := range s.switches {
			if w.Saves {
				return true
			}
		}
	}
	return false
}

// trapped reports whether the returns of any function are trapped.
func (r *resolver) trapped() bool {
	for _, w := range r.wants {
		if w.Returns == calls.Trapped {
			return true
		}
	}
	return false
}

// addSwitches adds the landmarks at switches, and their modules to set.
func (r *resolver) addSwitches(set *selection.ModuleSet, found switchingModules) error {
	for _, s := range found {
		m := s.module
		if set.ByFile[m.ID] == nil {
			set.ByFile[m.ID] = m
			set.List = append(set.List, m)
		}
		if r.trapped() {
			continue
		}
		texts, err := r.texts(m)
		if err != nil {
			closeTexts(texts)
			return err
		}
		for _, w := range s.switches {
			r.addSwitch(m, texts, w)
		}
		closeTexts(texts)
	}
	if r.trapped() && len(found) > 0 {
		r.remarks = append(r.remarks, "calls on the stacks of coroutines are not observed, since their returns are trapped: SET return_probes = 'auto' observes them")
	}
	return nil
}

// addSwitch adds the landmark of one switch, in all scopes of its module.
func (r *resolver) addSwitch(m *selection.Module, texts []*text, w codesite.Switch) {
	for _, t := range texts {
		if reason := t.check(w.Site.Offset, w.Site.Offset+uint64(len(w.Site.Bytes)), []uint64{w.Site.Offset}); reason != "" {
			r.remarks = append(r.remarks, fmt.Sprintf("calls of coroutines may be mistaken for others: %s in %s cannot be probed: %s", w.Function, m.Name(), reason))
			return
		}
	}
	for _, scope := range r.scopes(m, calls.AtExits) {
		r.landmarks = append(r.landmarks, calls.Landmark{
			Module: m, Scope: scope, Function: w.Function, Behind: w.Site.Addr - w.Entry, Site: w.Site,
			Program: bpf.FunctionProgFrameSwitch, Cookie: calls.SwitchCookie(w) | uint64(scope.Flags),
		})
	}
}

// exitsForCoroutines reports whether the query has to observe returns at exits because of
// coroutines: return traps are not set on their stacks.
func (r *resolver) exitsForCoroutines(found switchingModules) bool {
	return len(found) > 0 && r.trapped() && r.returnsBy == plan.AutoReturns
}
